#include "kv/prefix/block_hash.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace quire {
namespace {

// The four words of SipHash's state, with kWordRounds rounds per input word and kLastRounds at the
// end. Inputs are little-endian words (the project runs on little-endian hosts only).
template <int kWordRounds, int kLastRounds>
class SipState {
 public:
  SipState(uint64_t key0, uint64_t key1)
      : v0_(key0 ^ 0x736f6d6570736575u),
        v1_(key1 ^ 0x646f72616e646f6du ^ 0xeeu),  // 0xee selects the 128-bit output
        v2_(key0 ^ 0x6c7967656e657261u),
        v3_(key1 ^ 0x7465646279746573u) {}

  void absorb(uint64_t word) {
    v3_ ^= word;
    rounds(kWordRounds);
    v0_ ^= word;
  }

  BlockHash finish() {
    v2_ ^= 0xeeu;
    rounds(kLastRounds);
    BlockHash hash;
    hash.low = v0_ ^ v1_ ^ v2_ ^ v3_;
    v1_ ^= 0xddu;
    rounds(kLastRounds);
    hash.high = v0_ ^ v1_ ^ v2_ ^ v3_;
    return hash;
  }

 private:
  void rounds(int count) {
    for (int i = 0; i < count; ++i) round();
  }
  void round() {
    v0_ += v1_;
    v1_ = std::rotl(v1_, 13) ^ v0_;
    v0_ = std::rotl(v0_, 32);
    v2_ += v3_;
    v3_ = std::rotl(v3_, 16) ^ v2_;
    v0_ += v3_;
    v3_ = std::rotl(v3_, 21) ^ v0_;
    v2_ += v1_;
    v1_ = std::rotl(v1_, 17) ^ v2_;
    v2_ = std::rotl(v2_, 32);
  }
  uint64_t v0_, v1_, v2_, v3_;
};

uint64_t load_word(const std::byte* bytes, size_t count) {
  uint64_t word = 0;
  std::memcpy(&word, bytes, count);
  return word;
}

struct WideSum {
  uint64_t low = 0;
  uint64_t high = 0;
};

// Returns NH of at most as many words as there are keys; a missing word of the last pair is zero.
WideSum add_up_pairs(std::span<const std::byte> bytes, std::span<const uint64_t> keys) {
  using Wide = unsigned __int128;
  Wide sum = 0;
  size_t offset = 0;
  size_t word = 0;
  for (; offset + 16 <= bytes.size(); offset += 16, word += 2) {
    const uint64_t first = load_word(&bytes[offset], 8) + keys[word];
    const uint64_t second = load_word(&bytes[offset + 8], 8) + keys[word + 1];
    sum += Wide{first} * second;
  }
  if (offset < bytes.size()) {
    std::array<std::byte, 16> last{};
    std::ranges::copy(bytes.subspan(offset), last.begin());
    const uint64_t first = load_word(last.data(), 8) + keys[word];
    const uint64_t second = load_word(&last[8], 8) + keys[word + 1];
    sum += Wide{first} * second;
  }
  return {static_cast<uint64_t>(sum), static_cast<uint64_t>(sum >> 64)};
}

void append_key(std::string& message, char tag, std::string_view value) {
  message.push_back(tag);
  const uint64_t size = value.size();
  message.append(reinterpret_cast<const char*>(&size), sizeof size);
  message.append(value);
}

}  // namespace

BlockHash siphash128(uint64_t key0, uint64_t key1, std::span<const std::byte> bytes) {
  SipState<2, 4> state(key0, key1);
  size_t offset = 0;
  for (; offset + 8 <= bytes.size(); offset += 8) state.absorb(load_word(&bytes[offset], 8));
  const uint64_t tail =
      offset < bytes.size() ? load_word(&bytes[offset], bytes.size() - offset) : 0;
  state.absorb(tail | static_cast<uint64_t>(bytes.size() & 0xffu) << 56);
  return state.finish();
}

BlockHasher::BlockHasher(uint64_t seed) : key0_(seed), key1_(~seed * 0x9e3779b97f4a7c15u + 1) {
  for (size_t i = 0; i < piece_keys_.size(); i += 2) {
    const std::array<uint64_t, 2> message = {~uint64_t{0}, i};  // no root begins like this
    const BlockHash keys = siphash128(key0_, key1_, std::as_bytes(std::span(message)));
    piece_keys_[i] = keys.low;
    piece_keys_[i + 1] = keys.high;
  }
}

BlockHash BlockHasher::root(const CacheKeys& keys) const {
  std::string message = "root";
  append_key(message, 'S', keys.salt);
  append_key(message, 'A', keys.adapter);
  if (!keys.media.empty()) append_key(message, 'M', keys.media);
  return siphash128(key0_, key1_, std::as_bytes(std::span(message)));
}

BlockHash BlockHasher::extend(const BlockHash& parent, std::span<const TokenId> tokens,
                              const BlockHash* media_root) const {
  SipState<1, 3> state(key0_, key1_);
  state.absorb(parent.low);
  state.absorb(parent.high);
  if (media_root != nullptr) {
    state.absorb(media_root->low);
    state.absorb(media_root->high);
  }
  constexpr size_t kPieceBytes = kPieceWords * sizeof(uint64_t);
  const std::span<const std::byte> bytes = std::as_bytes(tokens);
  for (size_t offset = 0; offset < bytes.size(); offset += kPieceBytes) {
    const size_t size = std::min(kPieceBytes, bytes.size() - offset);
    const WideSum sum = add_up_pairs(bytes.subspan(offset, size), piece_keys_);
    state.absorb(sum.low);
    state.absorb(sum.high);
  }
  state.absorb(bytes.size() * 2 + (media_root == nullptr ? 0 : 1));
  return state.finish();
}

}  // namespace quire
