#include "base/rng.h"

namespace quire {

std::array<uint32_t, 4> philox4x32(uint64_t key, std::array<uint32_t, 4> counter) {
  constexpr uint64_t kMul0 = 0xD2511F53, kMul1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  auto k0 = static_cast<uint32_t>(key);
  auto k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = kMul0 * counter[0];
    const uint64_t p1 = kMul1 * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ k0, static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return counter;
}

float uniform_open(uint64_t seed, uint64_t position, uint32_t index) {
  const auto words = philox4x32(seed, {static_cast<uint32_t>(position),
                                       static_cast<uint32_t>(position >> 32), index / 4, 0});
  // 23 bits: with one more, bits + 0.5 would need 25 bits and the greatest would round to 1.
  const uint32_t bits = words[index % 4] >> 9;
  return (static_cast<float>(bits) + 0.5f) * 0x1p-23f;
}

}  // namespace quire
