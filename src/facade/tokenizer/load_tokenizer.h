// load_tokenizer() finds which of a model's files holds its tokenizer.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "tokenizer/tokenizer.h"
#include "weights/files/model_files.h"

namespace quire {

struct LoadedTokenizer {
  std::shared_ptr<const Tokenizer> tokenizer;  // null when the model has none
  std::string tekken_version;                  // of a tekken.json; else empty
};

// Reads tokenizer.json, else Mistral's tekken.json, else tokenizer.model or spiece.model, else Moonshot's
// tiktoken.model, else a *.tiktoken file, else vocab.json with merges.txt, else vocab.txt; for a
// GGUF file the vocabulary inside.
Result<LoadedTokenizer> load_tokenizer(const ModelFiles& files);

}  // namespace quire
