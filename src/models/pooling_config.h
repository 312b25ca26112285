// Whether a checkpoint makes embeddings or scores instead of text, and how: by the class that
// config.json names, and by the files of sentence-transformers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "models/model_config.h"
#include "weights/files/model_files.h"
#include "weights/files/tensor_source.h"

namespace quire {

// One entry of modules.json: what is done one after the other.
struct SentenceModule {
  std::string path;  // folder of its files; empty: the model's own
  std::string kind;  // Transformer, Pooling, Dense, Normalize …: the last part of its type
};

// `text`: modules.json. kInvalidArgument: it is not a list of modules.
Result<std::vector<SentenceModule>> parse_sentence_modules(std::string_view text);

// Of 1_Pooling/config.json. kUnimplemented: several kinds together, or one that Quire lacks.
Result<PoolingKind> parse_pooling_kind(std::string_view text, const std::string& where);

// Sets config.pooling, and the names of what its layers read. Nothing changes for a model that
// generates text.
Status read_pooling(const ModelFiles& files, ModelConfig& config);
// `source` with the tensors of the modules behind pooling (2_Dense), under names that
// config.names has.
Result<TensorSource> with_sentence_modules(const ModelFiles& files, const ModelConfig& config,
                                           TensorSource source);
Status read_gguf_pooling(const GgufFile& file, ModelConfig& config);

}  // namespace quire
