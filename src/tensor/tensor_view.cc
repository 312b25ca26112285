#include "tensor/tensor_view.h"

namespace quire {

Shape::Shape(std::initializer_list<int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  QUIRE_CHECK(dims.size() <= kMaxRank, "rank {}", dims.size());
  size_t i = 0;
  for (const int64_t dim : dims) {
    QUIRE_CHECK(dim >= 0, "dimension {}", dim);
    dims_[i++] = dim;
  }
}

int64_t Shape::num_elements() const {
  int64_t n = 1;
  for (int i = 0; i < rank_; ++i) n *= (*this)[i];
  return n;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.rank(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

}  // namespace quire
