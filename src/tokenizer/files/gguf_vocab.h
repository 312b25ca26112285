// GgufVocab is the vocabulary of a GGUF file as a plain struct, which the reader of the file fills
// in.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "tokenizer/tokenizer.h"

namespace quire {

// Each field has the name of its key tokenizer.ggml.*; the fields of absent keys stay empty.
struct GgufVocab {
  // "llama" (SentencePiece BPE), "gpt2" (byte-level BPE), "gemma4" (BPE of characters), "bert" or
  // "t5" (unigram).
  std::string model;
  std::string pre;                  // how "gpt2" cuts text: "gpt-2", "llama-bpe", "qwen2", ...
  std::vector<std::string> tokens;  // by id
  std::vector<float> scores;        // one per token for "llama" and "t5", else may be empty
  // 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte. May be empty.
  std::vector<int32_t> token_types;
  std::vector<std::string> merges;  // for "gpt2" and "gemma4": "left right"
  std::optional<int64_t> bos_token_id;
  std::optional<int64_t> eos_token_id;
  std::optional<int64_t> unknown_token_id;
  std::optional<int64_t> padding_token_id;
  std::optional<int64_t> seperator_token_id;  // spelled as in the files
  std::optional<int64_t> cls_token_id;
  std::optional<bool> add_bos_token;
  std::optional<bool> add_eos_token;
  std::optional<bool> add_space_prefix;
  std::optional<bool> remove_extra_whitespaces;
  std::string precompiled_charsmap;
};

// Makes a tokenizer whose ids agree with llama.cpp's. Returns an error of one line that names an
// unknown model or pre-tokenizer, or a list of wrong length.
Result<std::unique_ptr<Tokenizer>> tokenizer_from_gguf(GgufVocab vocab);

}  // namespace quire
