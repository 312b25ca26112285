// load_tokenizer() finds which of a model's files holds its tokenizer.
#pragma once

#include <memory>

#include "base/result.h"
#include "tokenizer/tokenizer.h"
#include "weights/files/model_files.h"

namespace quire {

// Reads tokenizer.json, else Mistral's tekken.json, else tokenizer.model, else Moonshot's
// tiktoken.model, else a *.tiktoken file, else vocab.json with merges.txt, else vocab.txt; for a
// GGUF file the vocabulary inside. Returns nullptr when the model has none of them.
Result<std::shared_ptr<const Tokenizer>> load_tokenizer(const ModelFiles& files);

}  // namespace quire
