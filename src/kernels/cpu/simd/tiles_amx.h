// Tiles in hardware (AMX), as tiles.h describes them. The intrinsics of GCC 12 do not tell the
// compiler that tile loads read memory, so these functions are inline assembly.
#pragma once

#include "kernels/cpu/simd/tiles.h"

namespace quire {
namespace {

class Tiles {
 public:
  explicit Tiles(const cpu::TileShapes& shapes) { reshape(shapes); }
  ~Tiles() { asm volatile("tilerelease"); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

  void reshape(const cpu::TileShapes& shapes) { asm volatile("ldtilecfg %0" : : "m"(shapes)); }

  template <int T>
  inline __attribute__((always_inline)) void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(T));
  }
  template <int T>
  inline __attribute__((always_inline)) void load(const void* p, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(p), "r"(stride), "i"(T) : "memory");
  }
  template <int T>
  inline __attribute__((always_inline)) void store(void* p, int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(p), "r"(stride), "i"(T) : "memory");
  }
  template <int C, int A, int B>
  inline __attribute__((always_inline)) void dot_bf16() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
  }
  template <int C, int A, int B>
  inline __attribute__((always_inline)) void dot_s8() {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
  }
};

}  // namespace
}  // namespace quire
