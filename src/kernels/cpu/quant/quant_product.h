// A product of some rows by one quantized weight, in the steps of DenseProduct
// (cpu/linear/dense_product.h).
#pragma once

#include "base/threads/thread_team.h"
#include "kernels/api/linear.h"
#include "kernels/cpu/kernel_tables.h"
#include "kernels/cpu/product_output.h"
#include "kernels/cpu/quant/quant_layout.h"

namespace quire::cpu {

// Borrows the weight. Threads may call the const members at once, for different blocks and columns.
class QuantProduct {
 public:
  static constexpr int64_t kPanel = kQuantPanel;

  QuantProduct(Isa isa, const PackedWeight& weight, int64_t num_rows);

  int64_t packed_bytes() const;
  int64_t scratch_bytes() const { return round_up(quant_scratch_bytes(kernels_, num_rows_), 64); }
  int64_t least_panels() const { return 1; }
  bool gates_itself() const { return false; }

  int64_t num_blocks() const { return cut_.count; }
  int64_t first_row(int64_t block) const { return cut_.first_row(block); }
  void pack_block(int64_t block, const float* x, int64_t x_stride, uint8_t* packed) const;
  void pack_share(int thread, int num_threads, const float* x, int64_t x_stride,
                  uint8_t* packed) const;
  const uint8_t* panel(int64_t column) const {
    return static_cast<const uint8_t*>(weight_.data) + column / kQuantPanel * layout_.panel_bytes;
  }
  void multiply(WorkRange columns, uint8_t* packed, uint8_t* scratch,
                const ProductOutput& out) const;

 private:
  int64_t x_floats() const {
    return round_up(num_rows_ * (layout_.padded_k + kernels_.x_padding), 16);
  }
  // Returns the numbers that the sums of each group need, which are stored after the packed rows.
  float* groups(uint8_t* packed) const { return reinterpret_cast<float*>(packed) + x_floats(); }

  const PackedWeight& weight_;
  QuantLayout layout_;
  const QuantKernels& kernels_;
  int64_t num_rows_;
  int64_t row_block_;
  QuantRowCut cut_;
};

}  // namespace quire::cpu
