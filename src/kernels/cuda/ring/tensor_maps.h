// Stores the tensor maps of a stream's launches, because the driver takes a while to encode one,
// and a launch needs two or four.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/hash/checksum.h"
#include "kernels/cuda/hopper_code.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/warpgroup_layout.h"

namespace quire::cuda {

inline bool encode(const CacheMapShape& shape, ptx::TensorMap* map) {
  return ptx::encode_cache_map(shape, map);
}
inline bool encode(const MatrixMapShape& shape, ptx::TensorMap* map) {
  return ptx::encode_matrix_map(shape, map);
}

inline uint64_t place_hash(const CacheMapShape& shape) {
  const auto base = reinterpret_cast<uintptr_t>(shape.base);
  return mix64(mix64(base, static_cast<uint64_t>(shape.block_stride)),
               static_cast<uint64_t>(shape.head_dim));
}
inline uint64_t place_hash(const MatrixMapShape& shape) {
  const auto base = reinterpret_cast<uintptr_t>(shape.base);
  const uint64_t memory = mix64(base, static_cast<uint64_t>(shape.row_stride));
  return mix64(mix64(memory, static_cast<uint64_t>(shape.rows)),
               static_cast<uint64_t>(shape.columns * 257 + shape.box_rows));
}

// A TensorMapTable stores maps by shape, in a fixed number of places. A map only says where memory
// is, not what it contains, so maps never become invalid. If another shape has taken a map's place,
// the map is encoded again.
template <class Shape>
class TensorMapTable {
 public:
  // `num_places` must be a power of two.
  explicit TensorMapTable(size_t num_places) : places_(num_places) {}

  // Returns the map of the shape, valid until the next call. Null: the shape cannot be mapped, or
  // the driver cannot encode it.
  const ptx::TensorMap* find(const Shape& shape) {
    Place& place = places_[(place_hash(shape) >> 32) & (places_.size() - 1)];
    if (place.is_taken && place.shape == shape) return &place.map;
    place.is_taken = encode(shape, &place.map);
    place.shape = shape;
    ++num_encoded_;
    return place.is_taken ? &place.map : nullptr;
  }
  int64_t num_encoded() const { return num_encoded_; }

 private:
  struct Place {
    ptx::TensorMap map{};
    Shape shape{};
    bool is_taken = false;
  };
  std::vector<Place> places_;
  int64_t num_encoded_ = 0;
};

// Created at the stream's first launch that needs a map, and destroyed with the stream. One thread
// may use it.
class TensorMaps final : public LibraryState {
 public:
  static TensorMaps& of(Stream& stream) {
    std::unique_ptr<LibraryState>& kept = gpu(stream).tensor_maps();
    if (kept == nullptr) kept = std::make_unique<TensorMaps>();
    return static_cast<TensorMaps&>(*kept);
  }

  const ptx::TensorMap* find(const CacheMapShape& shape) { return caches_.find(shape); }
  const ptx::TensorMap* find(const MatrixMapShape& shape) { return matrices_.find(shape); }
  int64_t num_encoded() const { return caches_.num_encoded() + matrices_.num_encoded(); }

 private:
  // A layer uses two caches and eight maps of matrices; each other size of batch adds maps of its
  // own.
  TensorMapTable<CacheMapShape> caches_{1 << 10};
  TensorMapTable<MatrixMapShape> matrices_{1 << 13};
};

}  // namespace quire::cuda
