// tokenizer.json is the format of Hugging Face tokenizers.
#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "tokenizer/tokenizer.h"

namespace quire {

// `json_text` is the file. `config_text` is tokenizer_config.json, or empty; it adds tokens and
// names bos, eos, unk and pad. Its add_bos_token and add_eos_token are used only if
// tokenizer.json's own post-processor adds no tokens and the tokenizer's class reads them
// (hf_config.h: adds_bos_and_eos()). Returns an error of one line that names an unknown component
// or a wrong field.
Result<std::unique_ptr<Tokenizer>> tokenizer_from_json(std::string_view json_text,
                                                       std::string_view config_text = {});

}  // namespace quire
