#include "base/rng.h"

#include <random>

namespace quire {

namespace {
constexpr uint64_t kMul0 = 0xD2511F53, kMul1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
}  // namespace

std::array<uint32_t, 4> philox4x32(uint64_t key, std::array<uint32_t, 4> counter) {
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

void philox4x32_x16(uint64_t key, std::array<uint32_t, 4> counter,
                    std::array<uint32_t, 64>& words) {
  constexpr uint32_t kBlocks = 16;  // computed together, so that the rounds vectorize
  std::array<uint32_t, kBlocks> c0, c1, c2, c3;
  for (uint32_t j = 0; j < kBlocks; ++j) {
    c0[j] = counter[0];
    c1[j] = counter[1];
    c2[j] = counter[2] + j;
    c3[j] = counter[3];
  }
  auto k0 = static_cast<uint32_t>(key);
  auto k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (uint32_t j = 0; j < kBlocks; ++j) {
      const uint64_t p0 = kMul0 * c0[j];
      const uint64_t p1 = kMul1 * c2[j];
      c0[j] = static_cast<uint32_t>(p1 >> 32) ^ c1[j] ^ k0;
      c1[j] = static_cast<uint32_t>(p1);
      c2[j] = static_cast<uint32_t>(p0 >> 32) ^ c3[j] ^ k1;
      c3[j] = static_cast<uint32_t>(p0);
    }
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  for (uint32_t j = 0; j < kBlocks; ++j) {
    words[4 * j] = c0[j];
    words[4 * j + 1] = c1[j];
    words[4 * j + 2] = c2[j];
    words[4 * j + 3] = c3[j];
  }
}

float uniform_open(uint64_t seed, uint64_t position, uint32_t index) {
  const auto words = philox4x32(
      seed, {static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), index / 4, 0});
  // 23 bits, since with one more, bits + 0.5 would need 25 bits and the largest would round to 1.
  const uint32_t bits = words[index % 4] >> 9;
  return (static_cast<float>(bits) + 0.5f) * 0x1p-23f;
}

uint64_t random_seed() {
  std::random_device words;
  return uint64_t{words()} << 32 | words();
}

}  // namespace quire
