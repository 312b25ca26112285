// The pre-tokenizers that tokenizer.ggml.pre of a GGUF file names say how byte-level BPE cuts text.
// This header is private to the tokenizer folder.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace quire {

// Cuts text into lines; runs of line ends are words of their own.
inline constexpr std::string_view kGgufLines = R"([^\n]+|[\n]+)";

struct GgufPreTokenizer {
  std::vector<std::string_view> patterns;  // applied one after the other; each match becomes a word
  bool ignore_merges = false;
  bool add_bos = false;  // used if the file does not say it
};

std::optional<GgufPreTokenizer> gguf_pre_tokenizer(std::string_view name);

}  // namespace quire
