// The hash of a block's content: a keyed 128-bit hash of everything that its KV depends on.
//
//   root  = H("root" | 'S' len salt | 'A' len adapter | 'M' len media, where there are any)
//   h_i   = H(h_{i-1} | root, where its keys name media | N(tokens of block i) | size)
//
// H is SipHash with 128-bit output (Aumasson and Bernstein, "SipHash: a fast short-input PRF",
// 2012) under a key that clients do not know: SipHash-2-4 for the root, and SipHash-1-3, which
// languages use for hash tables, for blocks. Hashing a prompt costs as much as the rest of its
// bookkeeping, so H reads only 16 bytes for each piece of 1 KiB: N is NH (Black, Halevi, Krawczyk,
// Krovetz, Rogaway, "UMAC: fast and secure message authentication", 1999) on words of 64 bits under
// keys drawn from H. Two pieces of one size have the same N with a probability of at most 2^-64.
// Even so, a hash only says where to look: PrefixCache compares tokens, parent and keys.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.h"
#include "core/request.h"

namespace quire {

struct BlockHash {
  uint64_t low = 0;
  uint64_t high = 0;
  friend bool operator==(const BlockHash&, const BlockHash&) = default;
};

// Returns SipHash-2-4-128 of `bytes` under the 128-bit key (key0, key1).
BlockHash siphash128(uint64_t key0, uint64_t key1, std::span<const std::byte> bytes);

// BlockHasher has pure functions under one key. It can be copied, and any thread may use it.
class BlockHasher {
 public:
  explicit BlockHasher(uint64_t seed);
  // Returns the hash from which the chain of a sequence with these keys starts. Each key is hashed
  // with its own tag and length, so that a salt never equals an adapter of the same name.
  BlockHash root(const CacheKeys& keys) const;
  // Returns the hash of a block that follows `parent` and holds `tokens`. `media_root` is the root
  // of its keys if they name media, which the tokens do not tell; otherwise it is null.
  BlockHash extend(const BlockHash& parent, std::span<const TokenId> tokens,
                   const BlockHash* media_root = nullptr) const;

 private:
  static constexpr size_t kPieceWords = 128;

  uint64_t key0_;
  uint64_t key1_;
  std::array<uint64_t, kPieceWords> piece_keys_;  // the keys of N
};

}  // namespace quire
