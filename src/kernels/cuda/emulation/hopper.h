// The operations that kernels/cuda/hopper.h wraps, as plain C++ over emulation::Block and
// emulation::AsyncUnit.
#pragma once

#include <cstdint>

#include "kernels/cuda/emulation/async_unit.h"
#include "kernels/cuda/emulation/ptx.h"
#include "kernels/cuda/warpgroup_layout.h"

#define QUIRE_GRID_CONSTANT

namespace quire::cuda::ptx {

using TensorMap = emulation::BoxedTensor;
using emulation::AsyncUnit;

inline bool encode_cache_map(const CacheMapShape& shape, TensorMap* map) {
  const int64_t dim = shape.head_dim;
  const int64_t slots = shape.block_size;
  *map = {.base = shape.base,
          .sizes = {dim, slots, shape.num_kv_heads, int64_t{1} << 31},
          .strides = {1, dim, dim * slots, shape.block_stride},
          .box_rows = shape.box_rows};
  return is_mappable(shape);
}
inline bool encode_matrix_map(const MatrixMapShape& shape, TensorMap* map) {
  *map = {.base = shape.base,
          .sizes = {shape.columns, shape.rows, 1, 1},
          .strides = {1, shape.row_stride, 0, 0},
          .box_rows = shape.box_rows};
  return is_mappable(shape);
}

inline uint32_t shared_address(const void* shared) {
  return static_cast<uint32_t>(static_cast<const uint8_t*>(shared) -
                               Block::current().shared_memory());
}

template <int kRegisters>
void give_back_registers() {}
template <int kRegisters>
void take_registers() {}

inline void sync_named(int id, int num_threads) { Block::current().wait_named(id, num_threads); }
inline void arrive_named(int id, int num_threads) {
  Block::current().arrive_named(id, num_threads);
}

inline void init_barrier(uint64_t* barrier, int arrivals) {
  AsyncUnit::current().init(barrier, arrivals);
}
inline void arrive(uint64_t* barrier) { AsyncUnit::current().arrive(barrier, 0); }
inline void arrive_expecting(uint64_t* barrier, int num_bytes) {
  AsyncUnit::current().arrive(barrier, num_bytes);
}
inline void wait_barrier(uint64_t* barrier, uint32_t parity) {
  AsyncUnit::current().wait(barrier, parity);
}
inline void wait_barriers(uint64_t* a, uint32_t a_parity, uint64_t* b, uint32_t b_parity) {
  wait_barrier(a, a_parity);
  wait_barrier(b, b_parity);
}
inline void publish_shared_writes() {}

inline void copy_bulk(void* shared, const void* global, int num_bytes, uint64_t* barrier) {
  AsyncUnit::current().copy_bulk(shared, global, num_bytes, barrier);
}
inline void copy_box(void* shared, const TensorMap& map, int c0, int c1, int c2, int c3,
                     uint64_t* barrier) {
  AsyncUnit::current().copy_box(shared, map, {c0, c1, c2, c3}, barrier);
}
inline void copy_box(void* shared, const TensorMap& map, int column, int row, uint64_t* barrier) {
  AsyncUnit::current().copy_box(shared, map, {column, row, 0, 0}, barrier);
}

inline void add_in_memory(float* y, float first, float second) {
  y[0] += first;
  y[1] += second;
}

// The lanes of a warp begin and end products together (.sync.aligned).
inline void begin_products() { Block::current().wait_for_warp(); }
inline void commit_products() { AsyncUnit::current().commit_products(); }
template <int kPending>
void wait_products() {
  AsyncUnit::current().wait_products(kPending);
  Block::current().wait_for_warp();
}
template <typename Sum, int kTiles>
void pin_registers(Sum (&d)[kTiles][4]) {
  AsyncUnit::current().check_free(d);
}
inline void compute_before_waiting(uint32_t /*bits*/) {}
template <bool kByRows>
void multiply_panel(float (&d)[8][4], const uint32_t (&a)[4], uint64_t b, bool adds) {
  AsyncUnit::current().multiply(
      {.d = d, .a_registers = a, .b = b, .b_is_by_rows = kByRows, .adds = adds});
}
template <int kTiles>
void multiply_panel(float (&d)[kTiles][4], const uint32_t (&a)[4], uint64_t b, bool adds) {
  AsyncUnit::current().multiply(
      {.d = d, .num_tiles = kTiles, .a_registers = a, .b = b, .adds = adds});
}
inline void multiply_panel(float (&d)[1][4], const uint32_t (&a)[4], uint64_t b) {
  AsyncUnit::current().multiply({.d = d, .num_tiles = 1, .a_registers = a, .b = b, .adds = true});
}
template <int kTiles>
void multiply_panels(float (&d)[kTiles][4], uint64_t a, uint64_t b, bool adds) {
  AsyncUnit::current().multiply({.d = d, .num_tiles = kTiles, .a = a, .b = b, .adds = adds});
}
template <int kTiles>
void multiply_e4m3_panels(float (&d)[kTiles][4], uint64_t a, uint64_t b, bool adds) {
  AsyncUnit::current().multiply({.d = d,
                                 .num_tiles = kTiles,
                                 .a = a,
                                 .b = b,
                                 .adds = adds,
                                 .operands = emulation::Operands::kE4M3});
}
template <int kTiles>
void multiply_int8_panels(int32_t (&d)[kTiles][4], uint64_t a, uint64_t b, bool adds) {
  AsyncUnit::current().multiply({.d = d,
                                 .num_tiles = kTiles,
                                 .a = a,
                                 .b = b,
                                 .adds = adds,
                                 .operands = emulation::Operands::kInt8});
}

}  // namespace quire::cuda::ptx
