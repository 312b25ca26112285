// Checkpoints store the up projection of latents (nn/decoder_spec.h: LatentSpec) as one matrix of
// all heads. split_latent_heads() cuts it into two matrices per head, so that all later code
// handles one layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "weights/files/tensor_source.h"
#include "weights/names/name_map.h"
#include "weights/quant/quant_config.h"

namespace quire {

struct LatentHeads {
  int64_t num_heads = 0;
  int64_t key_rows = 0;    // of each head
  int64_t value_rows = 0;  // of each head, behind its key rows
  int64_t rank = 0;
};

// A SplitSource is a source with the memory of those tensors that lie in no file.
struct SplitSource {
  TensorSource source;
  std::vector<std::unique_ptr<std::byte[]>> memory;
};

// Returns `source` with every matrix that a pattern of `names` ending with ".{e}.k" means (pattern
// "layers.{}.self_attn.kv_b_proj.{e}.k": "layers.3.self_attn.kv_b_proj.weight" [heads * (key rows +
// value rows), rank]) replaced by "….0.k.weight" [key rows, rank], "….0.v.weight" [value rows,
// rank], "….1.k.weight", and so on. Bytes stay where they are; quantized ones become bf16, because
// keys are multiplied by their columns. kInvalidArgument: a matrix has another shape.
Result<SplitSource> split_latent_heads(TensorSource source, const NameMap& names,
                                       const QuantConfig& quantization, const LatentHeads& heads);

}  // namespace quire
