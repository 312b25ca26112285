// Reads whether a checkpoint computes embeddings or scores instead of text, and how: from the class
// that config.json names, and from the files of sentence-transformers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "models/model_config.h"
#include "weights/files/model_files.h"
#include "weights/files/tensor_source.h"

namespace quire {

// An entry of modules.json, whose modules run one after the other.
struct SentenceModule {
  std::string path;  // folder of its files; empty: the model's own
  std::string kind;  // Transformer, Pooling, Dense, Normalize …: the last part of its type
};

// The tokens whose logits a LogitScore compares; without the second one, the first one's logit is
// the score.
struct LogitTokens {
  int64_t yes = 0;
  std::optional<int64_t> no;

  int64_t count() const { return no ? 2 : 1; }
};

// The name that with_sentence_modules() gives to the rows of the head that a LogitScore reads.
constexpr std::string_view kLogitRows = "logit_rows";

// `text` is modules.json. kInvalidArgument: it is not a list of modules.
Result<std::vector<SentenceModule>> parse_sentence_modules(std::string_view text);

// Reads 1_Pooling/config.json. kUnimplemented: it names several kinds of pooling at once, or one
// that Quire does not support.
Result<PoolingKind> parse_pooling_kind(std::string_view text, const std::string& where);

// Reads the module's config.json.
Result<LogitTokens> read_logit_tokens(const ModelFiles& files, const SentenceModule& module,
                                      int64_t vocab_size);

// Sets config.pooling and the names of the tensors that its layers read. Does nothing for a model
// that generates text.
Status read_pooling(const ModelFiles& files, ModelConfig& config);
// Tensors, and the memory of those that lie in no file.
struct ModuleTensors {
  TensorSource source;
  std::vector<std::unique_ptr<std::byte[]>> memory;
};
// Returns `source` with the tensors of the modules behind pooling (2_Dense, 1_LogitScore) added,
// under the names of config.names.
Result<ModuleTensors> with_sentence_modules(const ModelFiles& files, const ModelConfig& config,
                                            TensorSource source);
Status read_gguf_pooling(const GgufFile& file, ModelConfig& config);

}  // namespace quire
