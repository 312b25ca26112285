// tokenizer.model is the serialized model of SentencePiece (BPE and unigram).
//
// Quire's own code reads it and not libsentencepiece, which trusts offsets inside the file. The
// tests compare both.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "tokenizer/tokenizer.h"

namespace quire {

struct SentencePieceOptions {
  std::string_view config_json{};        // tokenizer_config.json, or empty
  std::string_view added_tokens_json{};  // added_tokens.json, or empty
  std::string_view file_name = "tokenizer.model";
};

// Around a text stands what the config's add_bos_token and add_eos_token say; without them BOS
// where the model has one, else EOS. Control and unknown pieces are special tokens. Text after an
// added token gets a leading space of its own only when the config says "legacy": true, or nothing of
// it beside a spiece.model: T5's. The sentinels that the config's extra_ids count stand behind the
// pieces, the first of them last.
Result<std::unique_ptr<Tokenizer>> tokenizer_from_sentencepiece(
    std::string_view model_bytes, const SentencePieceOptions& options = {});

}  // namespace quire
