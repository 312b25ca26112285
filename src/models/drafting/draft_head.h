// A DraftHead is the checkpoint of a draft model that reads the hidden states of another model:
// EAGLE, EAGLE-3, or MTP layers in the served model's own files. Its tensors are renamed to the
// names of config.names.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "models/model_config.h"
#include "weights/files/model_files.h"
#include "weights/files/tensor_source.h"

namespace quire {

struct DraftHead {
  ModelConfig config;  // draft_input is set
  TensorSource source{std::vector<RawTensor>{}};
  std::vector<int32_t> layers;  // layers of the served model whose inputs are read; may be empty
  // With config.head_size: the served model's token for each row of the head.
  std::vector<TokenId> token_map;
  int32_t num_speculative_tokens = 0;  // advised by the checkpoint; 0: it gives none
  // The files that the tensors borrow.
  std::vector<std::shared_ptr<const ModelFiles>> files;
};

// The served model.
struct DraftTarget {
  std::shared_ptr<const ModelFiles> files;
  ModelConfig config;
};

enum class DraftHeadKind : uint8_t { kEagle, kEagle3, kMtp };

// `files` are those of the draft model, and for MTP those of the target. kInvalidArgument,
// kNotFound and kUnimplemented have a message of one line that names the key or tensor, what was
// expected and what was found.
Result<std::shared_ptr<const DraftHead>> read_draft_head(DraftHeadKind kind,
                                                         std::shared_ptr<const ModelFiles> files,
                                                         const DraftTarget& target);

}  // namespace quire
