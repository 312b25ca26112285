#include "base/hash/checksum.h"

#include <cstring>

namespace quire {

uint64_t checksum(std::span<const std::byte> bytes, uint64_t seed) {
  const std::byte* const data = bytes.data();
  const size_t count = bytes.size();
  uint64_t lanes[8];
  for (uint64_t i = 0; i < 8; ++i) lanes[i] = seed + i;
  size_t at = 0;
  for (; at + 64 <= count; at += 64) {
    uint64_t words[8];
    std::memcpy(words, data + at, 64);
    for (int i = 0; i < 8; ++i) lanes[i] = (lanes[i] ^ words[i]) * 0x9fb21c651e98df25ull + 1;
  }
  for (; at < count; ++at)
    lanes[at % 8] = mix64(lanes[at % 8], std::to_integer<uint64_t>(data[at]));
  uint64_t sum = static_cast<uint64_t>(count);
  for (const uint64_t lane : lanes) sum = mix64(sum, lane ^ (lane >> 31));
  return sum;
}

}  // namespace quire
