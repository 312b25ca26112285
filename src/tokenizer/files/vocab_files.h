// These functions read vocabularies that are plain lists: vocab.txt (BERT) and vocab.json +
// merges.txt (GPT-2, Qwen2).
#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "tokenizer/tokenizer.h"

namespace quire {

// Reads a vocab.txt, which has one piece per line; the line number is the id. `config_text` is
// tokenizer_config.json or empty; its do_lower_case (default true), strip_accents and
// tokenize_chinese_chars are used. A text is put between [CLS] and [SEP] if those are pieces.
Result<std::unique_ptr<Tokenizer>> tokenizer_from_vocab_txt(std::string_view vocab_text,
                                                            std::string_view config_text = {});

// Reads vocab.json, which is {"piece": id}, and merges.txt, which has one "left right" per line.
// tokenizer_class in the config chooses whether text is cut as for GPT-2 or for Qwen2;
// add_bos_token and add_eos_token (default false) and add_prefix_space are used, too.
Result<std::unique_ptr<Tokenizer>> tokenizer_from_vocab_and_merges(
    std::string_view vocab_json, std::string_view merges_text, std::string_view config_text = {});

}  // namespace quire
