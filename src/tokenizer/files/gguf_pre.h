// tokenizer.ggml.pre says how GGUF files with byte-level BPE cut text. This header is private to
// the tokenizer folder.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace quire {

// Runs of line ends are words of their own.
inline constexpr std::string_view kGgufLines = R"([^\n]+|[\n]+)";

struct GgufPreTokenizer {
  std::vector<std::string_view> patterns;  // applied one after the other, matches isolated
  bool ignore_merges = false;
  bool add_bos = false;  // counts when the file does not say
};

std::optional<GgufPreTokenizer> gguf_pre_tokenizer(std::string_view name);

}  // namespace quire
