#include "sim/workload/token_content.h"

#include <algorithm>
#include <array>

#include "base/hash/splitmix64.h"

namespace quire::sim {
namespace {

// Odd, so that values within a stream repeat only after 2^30 tokens.
constexpr uint32_t kStep = 0x9E3779B1u;
constexpr uint32_t kMask = kVocabSize - 1;

// Tokens at even and odd positions have different bases, so that two streams agree in a block only
// if both halves of their ids do.
struct Bases {
  explicit Bases(uint64_t stream) {
    const uint64_t m = splitmix64(stream);
    base[0] = static_cast<uint32_t>(m);
    base[1] = static_cast<uint32_t>(m >> 32);
  }
  uint32_t base[2];
};

TokenId token(const Bases& bases, uint64_t position) {
  return static_cast<TokenId>((bases.base[position & 1] + static_cast<uint32_t>(position) * kStep) &
                              kMask);
}

}  // namespace

uint64_t stream_id(uint64_t kind, uint64_t value) { return splitmix64(splitmix64(kind) ^ value); }

TokenId content_token(uint64_t stream, int64_t position) {
  return token(Bases(stream), static_cast<uint64_t>(position));
}

void fill_content(uint64_t stream, int64_t position, std::span<TokenId> out) {
  const Bases bases(stream);
  const auto first = static_cast<uint64_t>(position);
  uint32_t even = bases.base[first & 1] + static_cast<uint32_t>(first) * kStep;
  uint32_t odd = bases.base[(first + 1) & 1] + static_cast<uint32_t>(first + 1) * kStep;
  size_t i = 0;
  for (; i + 1 < out.size(); i += 2, even += 2 * kStep, odd += 2 * kStep) {
    out[i] = static_cast<TokenId>(even & kMask);
    out[i + 1] = static_cast<TokenId>(odd & kMask);
  }
  if (i < out.size()) out[i] = static_cast<TokenId>(even & kMask);
}

// Writes through a buffer that stays in the L1 cache, so that a long prompt is written to memory
// once.
void append_content(uint64_t stream, int64_t position, int64_t count, std::vector<TokenId>& out) {
  std::array<TokenId, 1024> buffer;
  for (int64_t done = 0; done < count;) {
    const int64_t n = std::min<int64_t>(std::ssize(buffer), count - done);
    fill_content(stream, position + done, std::span(buffer).first(static_cast<size_t>(n)));
    out.insert(out.end(), buffer.begin(), buffer.begin() + n);
    done += n;
  }
}

}  // namespace quire::sim
