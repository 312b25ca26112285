// How a GPU stores the weights of a model, and how they are copied there.
//
//   float matrices        rows of bf16, what cuBLASLt reads
//   quantized matrices    FP8 rows for products of FP8, where the checkpoint is made for FP8
//                         activations and the device supports them
//                         (kernels/cuda/linear/fp8_linear.h); int8 rows for products of int8,
//                         where it is made for int8 activations
//                         (kernels/cuda/linear/int8_linear.h); else the tiles of
//                         kernels/cuda/quant/quant_weight.h, simplified where their kernel does
//                         not support the format; else (groups of 16 inputs) rows of bf16
//   matrices of experts   the same tiles, if all experts of a layer are quantized alike and their
//                         columns have no order of their own; else rows of bf16
//   tables                rows of bf16
//   vectors               float32
#pragma once

#include <vector>

#include "exec/gpu/gpu_upload.h"
#include "weights/checkpoint.h"
#include "weights/weight_packing.h"

namespace quire {

// How many matrices choose() gave each format.
struct GpuPackingCounts {
  int64_t fp8_products = 0;
  int64_t int8_products = 0;
  int64_t quantized = 0;
  int64_t quantized_of_experts = 0;
  int64_t expanded = 0;  // quantized in the checkpoint, kept as bf16
  int64_t expanded_of_experts = 0;
};

class GpuPacking final : public WeightPacking {
 public:
  // Borrows both. Tests set another `upload_buffer_bytes`.
  GpuPacking(Device& device, ThreadTeam& team,
             int64_t upload_buffer_bytes = GpuUpload::kBufferBytes)
      : device_(device), team_(team), upload_(device, team, upload_buffer_bytes) {}

  const GpuPackingCounts& counts() const { return counts_; }

  Result<WeightSpec> choose(const WeightSpec& stored, QuantActivations activations) override;
  Result<WeightSpec> choose_of_expert(const WeightSpec& stored,
                                      QuantActivations activations) override;
  // Expands those experts to bf16 that were not given the format of the others of their layer,
  // since one kernel multiplies all of them. It is called once, when all slots have their specs.
  void expand_unlike_experts(const std::vector<WeightSlot>& slots);
  int64_t packed_bytes(const WeightSpec& spec) const override;
  bool may_stack(const WeightSpec& spec, int64_t rows) const override;
  bool host_reads_tables() const override { return false; }
  bool takes_any_float() const override { return false; }
  void pack_weight_rows(const PackedWeight& weight, const WeightRows& rows) override;
  void pack_quant_rows(const PackedWeight& weight, const QuantSpec& stored,
                       const QuantRows& rows) override;
  void pack_quant_columns(const PackedWeight& weight, const int32_t* source) override;
  void write(void* to, const void* from, int64_t num_bytes) override;
  Status finish() override { return upload_.finish(); }

 private:
  void convert(const PackedWeight& weight, const WeightRows& rows);
  void expand(const PackedWeight& weight, const QuantSpec& stored, const QuantRows& rows);
  void pack_tiles(const PackedWeight& weight, const QuantSpec& stored, const QuantRows& rows);
  void pack_bytes(const PackedWeight& weight, const QuantRows& rows);
  void pack_scales(const PackedWeight& weight, int64_t first_row, int64_t num_rows,
                   const float* scales);

  Device& device_;
  ThreadTeam& team_;
  GpuUpload upload_;
  GpuPackingCounts counts_;
  std::vector<uint8_t> packed_;
  std::vector<float> scales_;
  std::vector<bfloat16> expanded_;
  std::vector<int32_t> order_;  // of the columns of a matrix that is being expanded
};

}  // namespace quire
