// Loads vectors of rows whose length is not a multiple of 16, and of rows in any stored float type.
#pragma once

#include "kernels/cpu/kernel_tables.h"
#include "kernels/cpu/simd/simd-inl.h"

namespace quire {
namespace {

// Returns the vector at x[i], of which only n - i lanes are read; the others are 0.
QUIRE_SIMD F16 load_at(const float* x, int64_t i, int64_t n) {
  return n - i >= 16 ? load(x + i) : load_n(x + i, n - i);
}
QUIRE_SIMD void store_at(float* x, int64_t i, int64_t n, F16 v) {
  if (n - i >= 16) {
    store(x + i, v);
  } else {
    store_n(x + i, v, n - i);
  }
}

QUIRE_SIMD F16 load_stored(cpu::Storage storage, const void* row, int64_t i, int64_t n) {
  if (storage == cpu::kStoreF32) return load_at(static_cast<const float*>(row), i, n);
  const uint16_t* p = static_cast<const uint16_t*>(row) + i;
  uint16_t some[16] = {};
  if (n - i < 16) {
    __builtin_memcpy(some, p, static_cast<size_t>(n - i) * sizeof(uint16_t));
    p = some;
  }
  return storage == cpu::kStoreBf16 ? load_bf16(p) : load_f16(p);
}

}  // namespace
}  // namespace quire
