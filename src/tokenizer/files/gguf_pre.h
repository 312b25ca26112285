// How GGUF files with byte-level BPE cut text, by tokenizer.ggml.pre. Private to the tokenizer
// folder.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace quire {

struct GgufPreTokenizer {
  std::vector<std::string_view> patterns;  // applied one after the other, matches isolated
  bool ignore_merges = false;
  bool add_bos = false;  // when the file does not say
};

std::optional<GgufPreTokenizer> gguf_pre_tokenizer(std::string_view name);

}  // namespace quire
