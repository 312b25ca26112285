// load_tokenizer() finds the file of a model that has its tokenizer.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "tokenizer/tokenizer.h"
#include "weights/files/model_files.h"

namespace quire {

struct LoadedTokenizer {
  std::shared_ptr<const Tokenizer> tokenizer;  // null if the model has none
  std::string tekken_version;                  // of a tekken.json; else empty
};

// Reads the first of these that is there: tokenizer.json, Mistral's tekken.json, tokenizer.model,
// spiece.model, Moonshot's tiktoken.model, a *.tiktoken file, vocab.json with merges.txt,
// vocab.txt. For a GGUF file it reads the vocabulary inside.
Result<LoadedTokenizer> load_tokenizer(const ModelFiles& files);

}  // namespace quire
