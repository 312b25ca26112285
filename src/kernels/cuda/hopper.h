// Features that only sm_90a has: barriers in shared memory, bulk copies and warpgroup products.
// Included by files named *_sm90a.cu, which are compiled for that target alone. emulation/hopper.h
// has the same functions for a host compiler.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/warpgroup_layout.h"
#include "kernels/cuda/warpgroup_products.h"

#define QUIRE_GRID_CONSTANT __grid_constant__

namespace quire::cuda::ptx {

using TensorMap = CUtensorMap;

// Returns the driver's function, which is looked up once. Null: the driver does not have it.
inline decltype(&cuTensorMapEncodeTiled) tensor_map_encoder() {
  static const auto encoder = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
    const bool is_there =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                         cudaEnableDefault, &found) == cudaSuccess &&
        found == cudaDriverEntryPointSuccess;
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(is_there ? function : nullptr);
  }();
  return encoder;
}

// Encodes boxes of 64 elements x `box_rows` of a tensor of bf16, 128-byte swizzled. Strides are in
// bytes, for all dimensions but the first. Returns false if the driver cannot.
template <int kRank>
bool encode_boxes(const void* base, const cuuint64_t (&sizes)[kRank],
                  const cuuint64_t (&strides)[kRank - 1], int32_t box_rows, TensorMap* map) {
  cuuint32_t box[kRank] = {kPanelDims, static_cast<cuuint32_t>(box_rows)};
  cuuint32_t steps[kRank];
  for (int i = 0; i < kRank; ++i) {
    if (i >= 2) box[i] = 1;
    steps[i] = 1;
  }
  const auto encode = tensor_map_encoder();
  return encode != nullptr &&
         encode(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, kRank, const_cast<void*>(base), sizes,
                strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

// Runs on the host. Returns false if the shape cannot be mapped or the driver cannot do it.
inline bool encode_cache_map(const CacheMapShape& shape, TensorMap* map) {
  const auto dim = static_cast<cuuint64_t>(shape.head_dim);
  const auto slots = static_cast<cuuint64_t>(shape.block_size);
  const auto heads = static_cast<cuuint64_t>(shape.num_kv_heads);
  constexpr cuuint64_t kAllBlocks = uint64_t{1}
                                    << 31;  // block ids are checked where they are given
  return is_mappable(shape) && encode_boxes<4>(shape.base, {dim, slots, heads, kAllBlocks},
                                               {dim * 2, dim * slots * 2,
                                                static_cast<cuuint64_t>(shape.block_stride) * 2},
                                               shape.box_rows, map);
}
inline bool encode_matrix_map(const MatrixMapShape& shape, TensorMap* map) {
  return is_mappable(shape) &&
         encode_boxes<2>(
             shape.base,
             {static_cast<cuuint64_t>(shape.columns), static_cast<cuuint64_t>(shape.rows)},
             {static_cast<cuuint64_t>(shape.row_stride) * 2}, shape.box_rows, map);
}

// --- registers: called by all warps of a warpgroup together ---
template <int kRegisters>
QUIRE_DEVICE void give_back_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
QUIRE_DEVICE void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// --- barriers for some of the block's threads; id 0 is that of sync_threads() ---
QUIRE_DEVICE void sync_named(int id, int num_threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(num_threads) : "memory");
}
// Arrives without waiting. `num_threads` includes the threads that wait.
QUIRE_DEVICE void arrive_named(int id, int num_threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(num_threads) : "memory");
}

// --- barriers in shared memory (8 bytes, aligned): a phase ends when `arrivals` threads have
// arrived and all bytes that they expect have been copied ---
QUIRE_DEVICE void init_barrier(uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(arrivals)
               : "memory");
}
QUIRE_DEVICE void arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
               : "memory");
}
QUIRE_DEVICE void arrive_expecting(uint64_t* barrier, int num_bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(num_bytes)
      : "memory");
}
// Waits until the phase of this parity has ended; phases count from 0.
QUIRE_DEVICE void wait_barrier(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "retry:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra ended;\n"
      "bra retry;\n"
      "ended:\n"
      "}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}
// Waits for two barriers, in the time of one.
QUIRE_DEVICE void wait_barriers(uint64_t* a, uint32_t a_parity, uint64_t* b, uint32_t b_parity) {
  asm volatile(
      "{\n"
      ".reg .pred done, other;\n"
      "retry:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 other, [%2], %3;\n"
      "and.pred done, done, other;\n"
      "@done bra ended;\n"
      "bra retry;\n"
      "ended:\n"
      "}" ::"r"(shared_address(a)),
      "r"(a_parity), "r"(shared_address(b)), "r"(b_parity)
      : "memory");
}
// Makes this thread's writes to shared memory visible to bulk copies and warpgroup products.
QUIRE_DEVICE void publish_shared_writes() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// --- asynchronous copies, which signal a barrier that expects their bytes ---
// `num_bytes` and both addresses must be multiples of 16.
QUIRE_DEVICE void copy_bulk(void* shared, const void* global, int num_bytes, uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(shared)),
      "l"(global), "r"(num_bytes), "r"(shared_address(barrier))
      : "memory");
}
// Copies the box of the map at these coordinates, 128-byte swizzled, with zeros outside of the
// tensor.
QUIRE_DEVICE void copy_box(void* shared, const TensorMap& map, int c0, int c1, int c2, int c3,
                           uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%2, %3, %4, %5}], [%6];" ::"r"(shared_address(shared)),
      "l"(&map), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(shared_address(barrier))
      : "memory");
}
// Copies the box of a matrix's map.
QUIRE_DEVICE void copy_box(void* shared, const TensorMap& map, int column, int row,
                           uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%2, %3}], [%4];" ::"r"(shared_address(shared)),
      "l"(&map), "r"(column), "r"(row), "r"(shared_address(barrier))
      : "memory");
}

// Adds to two adjacent floats in memory, at a multiple of 8 bytes, without waiting. Each sum is
// rounded once.
QUIRE_DEVICE void add_in_memory(float* y, float first, float second) {
  asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(y), "f"(first), "f"(second)
               : "memory");
}

// --- warpgroup products: d [64, 64] (+)= a [64, 16] b [16, 64], bf16 with float sums, computed by
// the 128 threads of a warpgroup. Warp w has rows 16 w to 16 w + 15. Of these rows a lane holds the
// elements of d and a that it holds in multiply_tiles(), where d is eight tiles of 8 columns.
// Neither d, a nor the shared memory may be touched from begin to wait. ---
QUIRE_DEVICE void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
// Closes the group of products since the last call.
QUIRE_DEVICE void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Waits until all but the last `kPending` groups are done.
template <int kPending>
QUIRE_DEVICE void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// Called before and after products, so that the compiler keeps d in its registers and does not move
// uses of d across.
template <int kTiles>
QUIRE_DEVICE void pin_registers(float (&d)[kTiles][4]) {
#pragma unroll
  for (auto& tile : d)
    asm volatile("" : "+f"(tile[0]), "+f"(tile[1]), "+f"(tile[2]), "+f"(tile[3])::"memory");
}
template <int kTiles>
QUIRE_DEVICE void pin_registers(int32_t (&d)[kTiles][4]) {
#pragma unroll
  for (auto& tile : d)
    asm volatile("" : "+r"(tile[0]), "+r"(tile[1]), "+r"(tile[2]), "+r"(tile[3])::"memory");
}

#define QUIRE_PRODUCT_SUMS                                                                      \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, " \
  "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"
#define QUIRE_PRODUCT_TILE(d, n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define QUIRE_PRODUCT_TILES(d)                                                      \
  QUIRE_PRODUCT_TILE(d, 0), QUIRE_PRODUCT_TILE(d, 1), QUIRE_PRODUCT_TILE(d, 2),     \
      QUIRE_PRODUCT_TILE(d, 3), QUIRE_PRODUCT_TILE(d, 4), QUIRE_PRODUCT_TILE(d, 5), \
      QUIRE_PRODUCT_TILE(d, 6), QUIRE_PRODUCT_TILE(d, 7)

// pin_registers() as a single operation, which helps the compiler to keep the array in registers.
QUIRE_DEVICE void pin_registers(float (&d)[8][4]) {
  asm volatile("" : QUIRE_PRODUCT_TILES(d)::"memory");
}
// Called before wait_products(), so that the values that `bits` depends on are computed before the
// wait. Otherwise the compiler may move the wait up, since nothing shows it that code without
// products should come first. (The only effect is that a thread whose bits are negative sleeps for
// no time.)
QUIRE_DEVICE void compute_before_waiting(uint32_t bits) {
  asm volatile(
      "{\n"
      ".reg .pred negative;\n"
      "setp.lt.s32 negative, %0, 0;\n"
      "@negative nanosleep.u32 0;\n"
      "}" ::"r"(bits)
      : "memory");
}

// `a` is in registers. `b` is the panel_descriptor() of 64 rows n of k (kByRows false), or of rows
// k of 64 n (kByRows). `adds` is false if d is to become a b alone.
template <bool kByRows>
QUIRE_DEVICE void multiply_panel(float (&d)[8][4], const uint32_t (&a)[4], uint64_t b, bool adds) {
  asm volatile(
      "{\n"
      ".reg .pred adds;\n"
      "setp.ne.b32 adds, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " QUIRE_PRODUCT_SUMS
      ", {%32, %33, %34, %35}, %36, adds, 1, 1, %38;\n"
      "}"
      : QUIRE_PRODUCT_TILES(d)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(adds)),
        "n"(kByRows ? 1 : 0));
}
// Does the same for 64, 32 and 128 rows n of k.
QUIRE_DEVICE void multiply_panel(float (&d)[8][4], const uint32_t (&a)[4], uint64_t b, bool adds) {
  multiply_panel<false>(d, a, b, adds);
}
QUIRE_DEVICE void multiply_panel(float (&d)[4][4], const uint32_t (&a)[4], uint64_t b, bool adds) {
  asm volatile(
      "{\n"
      ".reg .pred adds;\n"
      "setp.ne.b32 adds, %21, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}"
      ", {%16, %17, %18, %19}, %20, adds, 1, 1, 0;\n"
      "}"
      : QUIRE_PRODUCT_TILE(d, 0), QUIRE_PRODUCT_TILE(d, 1), QUIRE_PRODUCT_TILE(d, 2),
        QUIRE_PRODUCT_TILE(d, 3)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(adds)));
}
QUIRE_DEVICE void multiply_panel(float (&d)[16][4], const uint32_t (&a)[4], uint64_t b, bool adds) {
  asm volatile(
      "{\n"
      ".reg .pred adds;\n"
      "setp.ne.b32 adds, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "
      "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "
      "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}"
      ", {%64, %65, %66, %67}, %68, adds, 1, 1, 0;\n"
      "}"
      : QUIRE_PRODUCT_TILES(d), QUIRE_PRODUCT_TILE(d, 8), QUIRE_PRODUCT_TILE(d, 9),
        QUIRE_PRODUCT_TILE(d, 10), QUIRE_PRODUCT_TILE(d, 11), QUIRE_PRODUCT_TILE(d, 12),
        QUIRE_PRODUCT_TILE(d, 13), QUIRE_PRODUCT_TILE(d, 14), QUIRE_PRODUCT_TILE(d, 15)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(adds)));
}
// d [64, 8] += a b, where `b` is eight rows n of k.
QUIRE_DEVICE void multiply_panel(float (&d)[1][4], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "%8, 1, 1, 1, 0;"
      : QUIRE_PRODUCT_TILE(d, 0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
#undef QUIRE_PRODUCT_SUMS
#undef QUIRE_PRODUCT_TILE
#undef QUIRE_PRODUCT_TILES

}  // namespace quire::cuda::ptx
