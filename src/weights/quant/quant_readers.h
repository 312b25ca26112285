// These are the readers behind open_quant_matrix(), one per family of formats, and what they share.
// They are not meant for other folders.
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <string_view>

#include "weights/quant/quant_matrix.h"

namespace quire {

// A module being opened: finds its tensors and remembers them.
class ModuleTensors {
 public:
  ModuleTensors(const TensorSource& source, std::string_view module)
      : source_(source), module_(module) {}

  std::string_view module() const { return module_; }
  // MODULE.suffix; nullptr when absent. What was found counts as used.
  const RawTensor* find(std::string_view suffix);
  Result<const RawTensor*> require(std::string_view suffix);
  // Does as require(), for a tensor of this type and shape.
  Result<const RawTensor*> require(std::string_view suffix, std::string_view type_name,
                                   const std::vector<int64_t>& shape);
  std::vector<const RawTensor*> used() const { return used_; }

 private:
  const TensorSource& source_;
  std::string module_;
  std::vector<const RawTensor*> used_;
};

Status check_type_and_shape(const RawTensor& tensor, std::string_view type_name,
                            const std::vector<int64_t>& shape);

// Scales of F32, F16 or BF16; anything else is an error.
Result<ScaleType> scale_type_of(const RawTensor& tensor);

// Fails with kDataLoss unless each of the `count` scales of `type` at `scales` is finite.
Status check_finite(std::string_view tensor_name, const std::byte* scales, ScaleType type,
                    int64_t count);

// Reads value `index` of a stream of `bits`-bit numbers, lowest bits first, across 32-bit words.
// `words[i * stride]` is word i and need not be aligned.
class PackedBits {
 public:
  PackedBits(const std::byte* words, int64_t stride_words, int bits)
      : words_(words), stride_bytes_(stride_words * 4), bits_(bits) {}
  uint32_t at(int64_t index) const;

 private:
  uint32_t word(int64_t i) const;
  const std::byte* words_;
  int64_t stride_bytes_;
  int bits_;
};

// Returns the columns sorted by group, from the group of each column. Groups must be as large as
// group_size (the last may be smaller) and lie in [0, num_groups); else one line says which does
// not.
Result<std::vector<int32_t>> order_by_group(const RawTensor& g_idx, int64_t columns,
                                            int64_t group_size);

// The number of groups along `columns`; group_size -1 means one.
int64_t count_groups(int64_t columns, int64_t group_size);

Result<std::unique_ptr<QuantMatrix>> open_gguf_matrix(const RawTensor& tensor,
                                                      const MatrixShape& shape);
Result<std::unique_ptr<QuantMatrix>> open_awq_matrix(ModuleTensors& tensors,
                                                     const QuantScheme& scheme,
                                                     const MatrixShape& shape);
Result<std::unique_ptr<QuantMatrix>> open_gptq_matrix(ModuleTensors& tensors,
                                                      const QuantScheme& scheme,
                                                      const MatrixShape& shape);
// compressed-tensors' pack-quantized.
Result<std::unique_ptr<QuantMatrix>> open_packed_matrix(ModuleTensors& tensors,
                                                        const QuantScheme& scheme,
                                                        const MatrixShape& shape);
// Opens four-bit floats, two in a byte: NVFP4 and MXFP4.
Result<std::unique_ptr<QuantMatrix>> open_fp4_matrix(ModuleTensors& tensors,
                                                     const QuantScheme& scheme,
                                                     const MatrixShape& shape);
// Opens MXFP4 as gpt-oss stores it: MODULE.blocks and MODULE.scales.
Result<std::unique_ptr<QuantMatrix>> open_mx_blocks_matrix(ModuleTensors& tensors,
                                                           const MatrixShape& shape);
// Opens matrices of one byte per weight, int8 or fp8, with scales of any granularity.
Result<std::unique_ptr<QuantMatrix>> open_byte_matrix(ModuleTensors& tensors,
                                                      const QuantScheme& scheme,
                                                      const MatrixShape& shape);
// Opens BitNet's packed weights.
Result<std::unique_ptr<QuantMatrix>> open_bitnet_matrix(ModuleTensors& tensors,
                                                        const QuantScheme& scheme,
                                                        const MatrixShape& shape);

// Returns true for ggml types that open_gguf_matrix() reads.
bool is_quantized_ggml_type(std::string_view type_name);

}  // namespace quire
