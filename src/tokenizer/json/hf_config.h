// HfTokenizerConfig is what tokenizer_config.json adds to a tokenizer. This header is private to
// the tokenizer folder.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/tokenizer.h"

namespace quire {

struct HfTokenizerConfig {
  std::vector<AddedToken> added_tokens;    // added_tokens_decoder, by id
  std::vector<AddedToken> special_tokens;  // named and additional ones, without ids
  std::optional<std::string> bos_token;
  std::optional<std::string> eos_token;
  std::optional<std::string> unk_token;
  std::optional<std::string> pad_token;
  std::optional<bool> add_bos_token;
  std::optional<bool> add_eos_token;
  std::optional<bool> legacy;
  int64_t extra_ids = 0;        // T5's sentinels behind the pieces
  std::string tokenizer_class;  // "LlamaTokenizerFast"; empty if the file does not say it
  bool clean_up_tokenization_spaces = false;
};

// Parses tokenizer_config.json; an empty text gives all defaults.
Result<HfTokenizerConfig> parse_hf_tokenizer_config(std::string_view text);

// Returns whether add_bos_token and add_eos_token are used beside a tokenizer.json that adds no
// tokens itself. In transformers 4 the classes LlamaTokenizerFast, CodeLlamaTokenizerFast,
// GemmaTokenizerFast, CohereTokenizerFast and GPTNeoXTokenizerFast use them, in
// update_post_processor(). Other classes, and all of transformers 5
// (PreTrainedTokenizerBase._from_pretrained drops both fields), use only tokenizer.json. Published
// test vectors of such models (DeepSeek-Coder) expect the BOS, so Quire does as transformers 4.
bool adds_bos_and_eos(const HfTokenizerConfig& config);

// Reads added_tokens.json: {"<token>": id}.
Status parse_added_tokens_json(std::string_view text, std::vector<AddedToken>& tokens);

// Adds the tokens that `parts` lacks and sets bos, eos, unk and pad. A token that the vocabulary
// has keeps its id.
Status apply_hf_config(const HfTokenizerConfig& config, TokenizerParts& parts);

}  // namespace quire
