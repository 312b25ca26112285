// The vocabulary that kernels are written in. A kernel names no CUDA builtin: everything that only
// a GPU has is in namespace ptx, which nvcc takes from ptx.h and a host compiler from
// emulation/ptx.h. So the same kernel source also runs on a CPU, thread by thread, for tests where
// there is no GPU.
#pragma once

#if defined(__CUDACC__)
#include "kernels/cuda/ptx.h"
#else
#include "kernels/cuda/emulation/ptx.h"
#endif

#include <cstdint>

#include "base/dtype.h"

namespace quire::cuda {

// The element types of kernels, widened to float and narrowed again (round to nearest even).
QUIRE_DEVICE float widen(float x) { return x; }
QUIRE_DEVICE float widen(bfloat16 x) { return ptx::bits_to_float(uint32_t{x.bits} << 16); }
QUIRE_DEVICE float widen(float16 x) { return ptx::half_to_float(x.bits); }

template <typename T>
QUIRE_DEVICE T narrow(float x);
template <>
QUIRE_DEVICE float narrow<float>(float x) {
  return x;
}
template <>
QUIRE_DEVICE bfloat16 narrow<bfloat16>(float x) {
  return {static_cast<uint16_t>(ptx::pack_bf16(x, 0.0f) & 0xffffu)};
}

// Loads or stores N elements at once. The address must be a multiple of min(16, their total bytes).
template <int N, typename T>
struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) Elements {
  T at[N];
};
template <int N, typename T>
QUIRE_DEVICE void load(const T* from, float (&to)[N]) {
  const auto elements = *reinterpret_cast<const Elements<N, T>*>(from);
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = widen(elements.at[i]);
}
template <int N, typename T>
QUIRE_DEVICE void store(T* to, const float (&from)[N]) {
  Elements<N, T> elements;
#pragma unroll
  for (int i = 0; i < N; ++i) elements.at[i] = narrow<T>(from[i]);
  *reinterpret_cast<Elements<N, T>*>(to) = elements;
}

// Returns the sum over the warp, with the same bits in every lane, in an order that depends on the
// lanes alone.
QUIRE_DEVICE float warp_sum(float x) {
#pragma unroll
  for (int mask = 16; mask >= 1; mask /= 2) x += ptx::shuffle_xor(x, mask);
  return x;
}
QUIRE_DEVICE float warp_max(float x) {
#pragma unroll
  for (int mask = 16; mask >= 1; mask /= 2) x = ptx::max(x, ptx::shuffle_xor(x, mask));
  return x;
}

// Returns the sum over a block of at most 32 warps, with the same bits in every thread. `scratch`
// is 32 floats of shared memory, which may be reused after the next barrier that every thread has
// passed.
QUIRE_DEVICE float block_sum(float x, float* scratch) {
  const int warp = ptx::thread_index() / 32;
  const int lane = ptx::thread_index() % 32;
  x = warp_sum(x);
  if (lane == 0) scratch[warp] = x;
  ptx::sync_threads();
  return warp_sum(lane < ptx::block_threads() / 32 ? scratch[lane] : 0.0f);
}

}  // namespace quire::cuda
