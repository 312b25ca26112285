// Wraps each of the GPU's own operations once; hopper.h has those of sm_90a alone. emulation/ptx.h
// has the same functions for a host compiler, and is the readable definition of each.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#define QUIRE_KERNEL __global__ void
#define QUIRE_DEVICE __device__ __forceinline__
#define QUIRE_HOST_DEVICE __host__ __device__
#define QUIRE_BLOCK_BOUNDS(threads, blocks_per_sm) __launch_bounds__(threads, blocks_per_sm)

namespace quire::cuda::ptx {

// --- the thread's position (one dimension) ---
QUIRE_DEVICE int thread_index() { return static_cast<int>(threadIdx.x); }
QUIRE_DEVICE int block_threads() { return static_cast<int>(blockDim.x); }
QUIRE_DEVICE int block_index() { return static_cast<int>(blockIdx.x); }
QUIRE_DEVICE int num_blocks() { return static_cast<int>(gridDim.x); }

// Returns the block's dynamic shared memory, 1024-byte aligned and uninitialised.
QUIRE_DEVICE uint8_t* shared_memory() {
  extern __shared__ __align__(1024) uint8_t quire_shared_memory[];
  return quire_shared_memory;
}

QUIRE_DEVICE void sync_threads() { __syncthreads(); }
QUIRE_DEVICE void sync_warp() { __syncwarp(); }

// --- exchanges between the lanes of a warp; all 32 must take part ---
template <typename T>
QUIRE_DEVICE T shuffle_xor(T x, int mask) {
  return __shfl_xor_sync(0xffffffffu, x, mask);
}
template <typename T>
QUIRE_DEVICE T shuffle(T x, int lane) {
  return __shfl_sync(0xffffffffu, x, lane);
}
// Returns the value of the lane `delta` below, or the own value if there is none.
template <typename T>
QUIRE_DEVICE T shuffle_up(T x, int delta) {
  return __shfl_up_sync(0xffffffffu, x, static_cast<unsigned>(delta));
}
// Return the greatest and the least value of all lanes.
QUIRE_DEVICE uint32_t reduce_max(uint32_t x) { return __reduce_max_sync(0xffffffffu, x); }
QUIRE_DEVICE uint32_t reduce_min(uint32_t x) { return __reduce_min_sync(0xffffffffu, x); }
QUIRE_DEVICE uint32_t ballot(bool predicate) { return __ballot_sync(0xffffffffu, predicate); }

// --- numbers ---
QUIRE_DEVICE float bits_to_float(uint32_t bits) { return __uint_as_float(bits); }
QUIRE_DEVICE uint32_t float_to_bits(float x) { return __float_as_uint(x); }
QUIRE_DEVICE float max(float a, float b) { return fmaxf(a, b); }
QUIRE_DEVICE float min(float a, float b) { return fminf(a, b); }
QUIRE_DEVICE float infinity() { return __uint_as_float(0x7f800000u); }
QUIRE_DEVICE float multiply_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }
// Not contracted with neighbouring operations, so that two kernels with the same formula get the
// same bits.
QUIRE_DEVICE float multiply(float a, float b) { return __fmul_rn(a, b); }
QUIRE_DEVICE float add(float a, float b) { return __fadd_rn(a, b); }
QUIRE_DEVICE float divide(float a, float b) { return __fdiv_rn(a, b); }
QUIRE_DEVICE double add(double a, double b) { return __dadd_rn(a, b); }
// Returns 2^x within 2 ulp; 0 for -infinity.
QUIRE_DEVICE float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
QUIRE_DEVICE float half_to_float(uint16_t bits) {
  float y;
  asm("{ .reg .b16 h; mov.b16 h, %1; cvt.f32.f16 %0, h; }" : "=f"(y) : "h"(bits));
  return y;
}
// Returns two bf16, with `low` in the lower half.
QUIRE_DEVICE uint32_t pack_bf16(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
// Returns a b + c of two bf16 each, rounded once.
QUIRE_DEVICE uint32_t multiply_add_bf16x2(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t d;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
QUIRE_DEVICE uint32_t multiply_high(uint32_t a, uint32_t b) { return __umulhi(a, b); }
// Returns a & b | c in one instruction, which the compiler does not find if b and c are constants.
QUIRE_DEVICE uint32_t and_or(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t d;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
// Byte i of the result is byte (select >> 4 i & 7) of the eight bytes of a (0 to 3) and b (4 to 7).
QUIRE_DEVICE uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t select) {
  return __byte_perm(a, b, select);
}
QUIRE_DEVICE int count_bits(uint32_t x) { return __popc(x); }
// Returns 0 for an odd x, and 32 for 0.
QUIRE_DEVICE int count_trailing_zeros(uint32_t x) {
  return x == 0 ? 32 : __ffs(static_cast<int>(x)) - 1;
}

// --- memory ---
QUIRE_DEVICE int atomic_add(int* at, int x) { return atomicAdd(at, x); }
QUIRE_DEVICE uint32_t atomic_add(uint32_t* at, uint32_t x) { return atomicAdd(at, x); }
QUIRE_DEVICE uint32_t atomic_or(uint32_t* at, uint32_t x) { return atomicOr(at, x); }
QUIRE_DEVICE uint32_t atomic_xor(uint32_t* at, uint32_t x) { return atomicXor(at, x); }
QUIRE_DEVICE uint32_t shared_address(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}
// Copies 16 bytes from global to shared memory asynchronously, or writes zeros if not `valid`. Both
// addresses must be multiples of 16.
QUIRE_DEVICE void copy_async_16(void* shared, const void* global, bool valid) {
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
               "l"(global), "r"(bytes)
               : "memory");
}
// Starts to load a line of global memory into the L2 cache, without waiting.
QUIRE_DEVICE void prefetch(const void* global) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(global));
}
// Closes the group of copies since the last call.
QUIRE_DEVICE void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until all but the last `kPending` groups of this thread have been copied.
template <int kPending>
QUIRE_DEVICE void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// --- tensor cores ---
// Loads four 8 x 8 matrices of 16-bit elements. Lane l gives the address of row l % 8 of matrix l /
// 8, and gets elements (l / 4, 2 (l % 4)) and the next of matrix j in to[j].
QUIRE_DEVICE void load_matrices(uint32_t (&to)[4], const void* shared_row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(shared_row))
               : "memory");
}
// Does the same, with the matrices transposed.
QUIRE_DEVICE void load_matrices_transposed(uint32_t (&to)[4], const void* shared_row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(shared_row))
               : "memory");
}
// Transposes an 8 x 8 matrix of 16-bit elements, of which a lane has elements (l / 4, 2 (l % 4))
// and the next.
QUIRE_DEVICE uint32_t transpose_matrix(uint32_t x) {
  uint32_t y;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}
// d [16, 8] += a [16, 16] b [16, 8], bf16 with float sums. With g = lane / 4, t = lane % 4:
//   a: (g, 2t..), (g + 8, 2t..), (g, 2t + 8..), (g + 8, 2t + 8..)      two elements each
//   b: (2t.., g), (2t + 8.., g)                                         two elements each
//   d: (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1)
QUIRE_DEVICE void multiply_tiles(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// d [16, 8] += a [16, 32] b [32, 8] of int8 with int32 sums. Four elements each, with g and t as above:
//   a: (g, 4t..), (g + 8, 4t..), (g, 4t + 16..), (g + 8, 4t + 16..)
//   b: (4t.., g), (4t + 16.., g)
QUIRE_DEVICE void multiply_int8_tiles(int32_t (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                      uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// --- between kernels (programmatic dependent launch, sm_90; no effect on earlier GPUs) ---
// Waits until everything that earlier kernels of the stream wrote can be read.
QUIRE_DEVICE void wait_for_previous_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// Lets the next kernel of the stream start its prologue.
QUIRE_DEVICE void let_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

}  // namespace quire::cuda::ptx
