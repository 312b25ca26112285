// These vocabularies come as bare lists: vocab.txt (BERT) and vocab.json + merges.txt (GPT-2,
// Qwen2).
#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "tokenizer/tokenizer.h"

namespace quire {

// vocab.txt has one piece a line, whose number is the id. `config_text` is tokenizer_config.json or
// empty; do_lower_case (default true), strip_accents and tokenize_chinese_chars count. A text
// stands between [CLS] and [SEP] where those are pieces.
Result<std::unique_ptr<Tokenizer>> tokenizer_from_vocab_txt(std::string_view vocab_text,
                                                            std::string_view config_text = {});

// vocab.json is {"piece": id}, and merges.txt has one "left right" a line. tokenizer_class in the
// config chooses GPT-2's or Qwen2's way to cut text; add_bos_token and add_eos_token count (default
// false), and add_prefix_space too.
Result<std::unique_ptr<Tokenizer>> tokenizer_from_vocab_and_merges(
    std::string_view vocab_json, std::string_view merges_text, std::string_view config_text = {});

}  // namespace quire
