// These are the readers behind open_quant_matrix(), one per family of formats, and the helpers that
// they share. They are not meant for other folders.
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <string_view>

#include "weights/quant/quant_matrix.h"

namespace quire {

// ModuleTensors finds the tensors of a module that is being opened, and records which were found.
class ModuleTensors {
 public:
  ModuleTensors(const TensorSource& source, std::string_view module)
      : source_(source), module_(module) {}

  std::string_view module() const { return module_; }
  // Returns the tensor MODULE.suffix, or nullptr if it is absent, and records it as used.
  const RawTensor* find(std::string_view suffix);
  Result<const RawTensor*> require(std::string_view suffix);
  // Returns a tensor like require() above, if it has this type and shape.
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

// Returns the type of scales in F32, F16 or BF16; for any other type, returns an error.
Result<ScaleType> scale_type_of(const RawTensor& tensor);

// Fails with kDataLoss unless each of the `count` scales of `type` at `scales` is finite.
Status check_finite(std::string_view tensor_name, const std::byte* scales, ScaleType type,
                    int64_t count);

// PackedBits reads numbers of `bits` bits from a stream of 32-bit words, lowest bits first. Word i
// is at `words` + i * `stride_words` words and need not be aligned.
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

// Returns the columns sorted by group; `g_idx` holds the group of each column. Every group must
// have group_size columns (the last may have fewer) and lie in [0, num_groups); otherwise the error
// says in one line which group does not.
Result<std::vector<int32_t>> order_by_group(const RawTensor& g_idx, int64_t columns,
                                            int64_t group_size);

// Returns the number of groups along `columns`; group_size -1 means one group.
int64_t count_groups(int64_t columns, int64_t group_size);

Result<std::unique_ptr<QuantMatrix>> open_gguf_matrix(const RawTensor& tensor,
                                                      const MatrixShape& shape);
Result<std::unique_ptr<QuantMatrix>> open_awq_matrix(ModuleTensors& tensors,
                                                     const QuantScheme& scheme,
                                                     const MatrixShape& shape);
Result<std::unique_ptr<QuantMatrix>> open_gptq_matrix(ModuleTensors& tensors,
                                                      const QuantScheme& scheme,
                                                      const MatrixShape& shape);
// Opens the pack-quantized format of compressed-tensors.
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
