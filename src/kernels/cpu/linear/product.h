// Chooses the product of some rows by a weight of any type.
#pragma once

#include <cstdint>
#include <utility>

#include "kernels/cpu/linear/dense_product.h"
#include "kernels/cpu/quant/quant_product.h"

namespace quire::cpu {

// With up to this many rows, of all experts where there are several, each thread packs the rows
// that it needs for itself, which costs less than a barrier between packing and use.
inline constexpr int64_t kPrivateRows = 12;

// Calls use(product) with the DenseProduct or QuantProduct of `num_rows` >= 1 rows by `weight`.
template <class Use>
decltype(auto) with_product(Isa isa, const PackedWeight& weight, int64_t num_rows, Use&& use) {
  if (weight.spec.quant.is_quantized()) return use(QuantProduct(isa, weight, num_rows));
  return use(DenseProduct(isa, weight, num_rows));
}

}  // namespace quire::cpu
