// Philox 4x32-10 (Salmon et al., SC11), word for word the same as the host's philox4x32()
// (base/rng.h).
#pragma once

#include <cstdint>

#include "kernels/cuda/device_code.h"

namespace quire::cuda {

struct PhiloxWords {
  uint32_t at[4];
};

QUIRE_DEVICE PhiloxWords philox(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3) {
  constexpr uint32_t kMul0 = 0xD2511F53u, kMul1 = 0xCD9E8D57u;
  auto k0 = static_cast<uint32_t>(key);
  auto k1 = static_cast<uint32_t>(key >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint32_t high0 = ptx::multiply_high(kMul0, c0);
    const uint32_t high1 = ptx::multiply_high(kMul1, c2);
    const uint32_t low0 = kMul0 * c0;
    const uint32_t low1 = kMul1 * c2;
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

}  // namespace quire::cuda
