#include "server/llama/fill_in.h"

#include <algorithm>
#include <array>

namespace quire::server {
namespace {

using Names = std::array<std::string_view, 6>;

// The names are, in order, those of Qwen, Granite and StarCoder; StarCoder; CodeLlama; DeepSeek;
// CodeGemma; GLM.
constexpr Names kPrefix = {"<|fim_prefix|>",  "<fim_prefix>", "▁<PRE>",
                           "<｜fim▁begin｜>", "<fim-prefix>", "<|code_prefix|>"};
constexpr Names kSuffix = {"<|fim_suffix|>", "<fim_suffix>", "▁<SUF>",
                           "<｜fim▁hole｜>", "<fim-suffix>", "<|code_suffix|>"};
constexpr Names kMiddle = {"<|fim_middle|>", "<fim_middle>", "▁<MID>",
                           "<｜fim▁end｜>",  "<fim-middle>", "<|code_middle|>"};
constexpr Names kRepository = {"<|repo_name|>", "<repo_name>", "<reponame>", "", "", ""};
constexpr Names kFile = {"<|file_sep|>", "<file_sep>", "<filename>", "", "", ""};

constexpr std::string_view kRepositoryName = "project";
// This text goes before another file when the model has no token for that.
constexpr std::string_view kSnippet = "\n\n--- snippet ---\n\n";

std::optional<TokenId> find_token(std::span<const MarkToken> tokens, const Names& names) {
  for (const std::string_view name : names) {
    if (name.empty()) continue;
    const auto found =
        std::ranges::find_if(tokens, [&](const MarkToken& t) { return t.text == name; });
    if (found != tokens.end()) return found->id;
  }
  return std::nullopt;
}

// Returns the begin-of-sequence token, and other tokens that the tokenizer puts before a text.
Result<std::vector<TokenId>> beginning(const TextCodec& codec) {
  QUIRE_ASSIGN_OR_RETURN(std::vector<TokenId> with, codec.encode("a", true));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> without, codec.encode("a", false));
  const auto text = std::search(with.begin(), with.end(), without.begin(), without.end());
  with.erase(text, with.end());
  return with;
}

}  // namespace

std::optional<FillInTokens> find_fill_in_tokens(const TextCodec& codec) {
  const std::vector<MarkToken> marks = codec.mark_tokens();
  const auto prefix = find_token(marks, kPrefix), suffix = find_token(marks, kSuffix),
             middle = find_token(marks, kMiddle);
  if (!prefix || !suffix || !middle) return std::nullopt;
  return FillInTokens{*prefix, *suffix, *middle, find_token(marks, kRepository),
                      find_token(marks, kFile)};
}

Result<std::vector<TokenId>> fill_in_prompt(const FillIn& gap, const FillInTokens& tokens,
                                            const TextCodec& codec) {
  QUIRE_ASSIGN_OR_RETURN(std::vector<TokenId> prompt, beginning(codec));
  const auto add = [&](std::string_view text) -> Status {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, codec.encode(text, false));
    prompt.insert(prompt.end(), ids.begin(), ids.end());
    return {};
  };
  const bool in_files = tokens.repository && tokens.file && !gap.others.empty();
  if (in_files) {
    prompt.push_back(*tokens.repository);
    QUIRE_RETURN_IF_ERROR(add(std::string(kRepositoryName) + "\n"));
  }
  for (const FillIn::File& file : gap.others) {
    if (in_files) {
      prompt.push_back(*tokens.file);
      QUIRE_RETURN_IF_ERROR(add(file.name + "\n" + file.text));
    } else {
      QUIRE_RETURN_IF_ERROR(add(std::string(kSnippet) + file.text));
    }
  }
  if (in_files) {
    prompt.push_back(*tokens.file);
    QUIRE_RETURN_IF_ERROR(add("filename\n"));
  }
  prompt.push_back(tokens.prefix);
  QUIRE_RETURN_IF_ERROR(add(gap.before));
  prompt.push_back(tokens.suffix);
  QUIRE_RETURN_IF_ERROR(add(gap.after));
  prompt.push_back(tokens.middle);
  QUIRE_RETURN_IF_ERROR(add(gap.begun));
  return prompt;
}

}  // namespace quire::server
