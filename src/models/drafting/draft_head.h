// A DraftHead is the checkpoint of a model that drafts from the hidden states of another: EAGLE,
// EAGLE-3, or MTP layers inside the served model's own files. Whatever its tensors are called
// there, they get the names that config.names has.
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
  ModelConfig config;  // with draft_input
  TensorSource source{std::vector<RawTensor>{}};
  std::vector<int32_t> layers;  // of the served model, whose states on entering are read; or none
  std::vector<TokenId> token_map;      // config.head_size: the served model's token of each row
  int32_t num_speculative_tokens = 0;  // that the checkpoint advises; 0: it says nothing
  // Whose mappings the tensors borrow.
  std::vector<std::shared_ptr<const ModelFiles>> files;
};

// This is the model that is served.
struct DraftTarget {
  std::shared_ptr<const ModelFiles> files;
  ModelConfig config;
};

enum class DraftHeadKind : uint8_t { kEagle, kEagle3, kMtp };

// `files` are the drafter's, and for MTP the target's. kInvalidArgument, kNotFound and
// kUnimplemented come with one line that names the key or tensor, what was expected and what came.
Result<std::shared_ptr<const DraftHead>> read_draft_head(DraftHeadKind kind,
                                                         std::shared_ptr<const ModelFiles> files,
                                                         const DraftTarget& target);

}  // namespace quire
