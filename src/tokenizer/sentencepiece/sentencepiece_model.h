// tokenizer.model is the serialized model of SentencePiece (BPE and unigram).
//
// Quire reads it with its own code, because libsentencepiece trusts offsets inside the file. The
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

// Makes a tokenizer. It puts around a text what the config's add_bos_token and add_eos_token say;
// without these fields, BOS if the model has one, else EOS. Control and unknown pieces are special
// tokens. Text after an added token gets a leading space of its own only if the config says
// "legacy": true, or if it does not mention "legacy" and the file is T5's spiece.model. The
// sentinels that the config's extra_ids counts have the ids behind the pieces, in reverse order.
Result<std::unique_ptr<Tokenizer>> tokenizer_from_sentencepiece(
    std::string_view model_bytes, const SentencePieceOptions& options = {});

}  // namespace quire
