// Reads Medusa's heads from the checkpoints of FasterDecoding and from those in vLLM's format.
#pragma once

#include <memory>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "nn/drafting/medusa_heads.h"
#include "weights/files/model_files.h"
#include "weights/files/tensor_source.h"
#include "weights/names/name_map.h"

namespace quire {

struct MedusaCheckpoint {
  MedusaSpec spec;
  TensorSource source{std::vector<RawTensor>{}};  // under the names of medusa_names()
  std::vector<TokenId> token_map;  // the token of each row of a head; empty: row i is token i
};

const NameMap& medusa_names();

// `files` must outlive the result. Errors are one line that names the tensor or key.
Result<MedusaCheckpoint> read_medusa(const ModelFiles& files, int64_t hidden_size,
                                     int64_t vocab_size);

}  // namespace quire
