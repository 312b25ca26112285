// A borrowed, dense, row-major tensor: pointer, element type, shape. Owns nothing; valid while its
// owner (an Arena, a mapped file) is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "base/check.h"
#include "base/dtype.h"

namespace quire {

class Shape {
 public:
  static constexpr int kMaxRank = 4;
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims);  // CHECKs rank <= kMaxRank, dims >= 0

  int rank() const { return rank_; }
  int64_t operator[](int i) const {
    QUIRE_DCHECK(i >= 0 && i < rank_);
    return dims_[static_cast<size_t>(i)];
  }
  int64_t num_elements() const;
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

std::string to_string(const Shape& shape);  // "[3, 128]"

struct TensorView {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;

  int64_t size_in_bytes() const { return shape.num_elements() * size_bytes(dtype); }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data);
  }
};

}  // namespace quire
