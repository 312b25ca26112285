// A product of some rows by one dense weight, in two steps that threads share: rows are packed, and
// then columns are multiplied. linear() and run_experts() use it; QuantProduct has the same members
// for quantized weights.
#pragma once

#include <algorithm>

#include "kernels/api/linear.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/product_output.h"

namespace quire::cpu {

// Borrows the weight. Threads may call the const members at once, for different blocks and columns.
class DenseProduct {
 public:
  static constexpr int64_t kPanel = kPanelWidth;

  DenseProduct(Isa isa, const PackedWeight& weight, int64_t num_rows)
      : weight_(weight),
        kernels_(linear_kernels(isa, weight.spec)),
        num_rows_(num_rows),
        cut_(linear_row_cut(kernels_, num_rows)) {}

  // Returns the bytes of all packed rows, which are at most num_rows times those of one row.
  int64_t packed_bytes() const {
    return round_up(num_rows_ * row_bytes(), 64) + round_up(num_rows_ * int64_t{sizeof(float)}, 64);
  }
  // Returns the bytes of scratch per thread, which do not decrease with more rows.
  int64_t scratch_bytes() const { return linear_scratch_bytes(kernels_, num_rows_); }
  // Returns the fewest panels for which a thread should read all packed rows.
  int64_t least_panels() const { return num_rows_ > kManyRows ? kernels_.least_panels : 1; }

  // Returns whether multiply() applies gates and can store past the caches.
  bool gates_itself() const {
    return kernels_.least_own_gate_rows > 0 && num_rows_ >= kernels_.least_own_gate_rows;
  }

  int64_t num_blocks() const { return cut_.num_blocks; }
  int64_t first_row(int64_t block) const { return cut_.first_row(block); }
  // Packs the rows of one block. `x` is its first row.
  void pack_block(int64_t block, const float* x, int64_t x_stride, uint8_t* packed) const {
    pack_rows({first_row(block), first_row(block + 1)}, x, x_stride, packed);
  }
  // Packs a thread's share of all rows. `x` is the first of all.
  void pack_share(int thread, int num_threads, const float* x, int64_t x_stride,
                  uint8_t* packed) const {
    const WorkRange rows = rows_to_pack(thread, num_threads);
    pack_rows(rows, x + rows.begin * x_stride, x_stride, packed);
  }

  // Returns the start of the weights of the outputs from `column` on.
  const uint8_t* panel(int64_t column) const {
    return static_cast<const uint8_t*>(weight_.data) + column / kPanelWidth *
                                                           padded_k(weight_.spec) * kPanelWidth *
                                                           size_bytes(weight_.spec.dtype);
  }

  // Computes outputs [columns.begin, columns.end); columns.begin is a multiple of kPanel.
  void multiply(WorkRange columns, uint8_t* packed, uint8_t* scratch,
                const ProductOutput& out) const {
    const WeightSpec& spec = weight_.spec;
    const bool int8 = spec.dtype == DType::kI8;
    const auto multiply_panels =
        int8 ? kernels_.panels_int8 : kernels_.panels[storage_of(spec.dtype)];
    const Int8Tail tail = int8_tail(weight_);
    multiply_panels({.x = packed,
                     .m = num_rows_,
                     .row_block = rows_per_block(kernels_, num_rows_),
                     .cut = cut_,
                     .padded_k = padded_k(spec),
                     .panels = panel(columns.begin),
                     .num_panels = (columns.end - columns.begin + kPanelWidth - 1) / kPanelWidth,
                     .y = out.y,
                     .y_stride = out.y_stride,
                     .num_columns = columns.end - columns.begin,
                     .bias = out.bias == nullptr ? nullptr : out.bias + columns.begin,
                     .accumulate = out.accumulate,
                     .x_scales = int8 ? scales(packed) : nullptr,
                     .w_scales = int8 ? tail.scales + columns.begin : nullptr,
                     .w_sums = int8 ? tail.sums + columns.begin : nullptr,
                     .scratch = scratch,
                     .gate = out.gate,
                     .past_caches = out.past_caches});
  }

 private:
  // With more rows, packed activations of a large K do not stay in a core's own caches.
  static constexpr int64_t kManyRows = 128;

  int64_t row_bytes() const {
    return padded_k(weight_.spec) * kernels_.x_bytes + kernels_.x_padding;
  }
  // Returns the factors of the values of int8 rows, which are stored after the packed rows.
  float* scales(uint8_t* packed) const {
    return reinterpret_cast<float*>(packed + round_up(num_rows_ * row_bytes(), 64));
  }
  // Returns the thread's share: whole blocks if the rows of a block share cache lines.
  WorkRange rows_to_pack(int thread, int num_threads) const {
    if (kernels_.rows_apart) return split_work(num_rows_, 1, thread, num_threads);
    const WorkRange mine = split_work(num_blocks(), 1, thread, num_threads);
    return {first_row(mine.begin), first_row(mine.end)};
  }
  // `x` is the row rows.begin.
  void pack_rows(WorkRange rows, const float* x, int64_t x_stride, uint8_t* packed) const {
    const WeightSpec& spec = weight_.spec;
    const auto pack = spec.compute == ComputeType::kBF16 ? kernels_.pack_x_bf16 : kernels_.pack_x;
    for (int64_t row = rows.begin; row < rows.end;) {
      const int64_t block = cut_.block_of(row);
      const int64_t end = std::min(first_row(block + 1), rows.end);
      pack({.x = x + (row - rows.begin) * x_stride,
            .x_stride = x_stride,
            .num_rows = end - row,
            .first_row = row,
            .block_row = first_row(block),
            .block_rows = first_row(block + 1) - first_row(block),
            .m = num_rows_,
            .k = spec.k,
            .padded_k = padded_k(spec),
            .out = packed,
            .scales = scales(packed) + row});
      row = end;
    }
  }

  const PackedWeight& weight_;
  const LinearKernels& kernels_;
  int64_t num_rows_;
  LinearRowCut cut_;
};

}  // namespace quire::cpu
