// Prompts that ask a model for the text between two others ("fill in the middle").
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "server/openai/served_model.h"

namespace quire::server {

// The tokens by which a model is shown what stands around a gap.
struct FillInTokens {
  TokenId prefix = 0, suffix = 0, middle = 0;
  // Before the name of a repository and before each of its files, where the model knows them.
  std::optional<TokenId> repository = {}, file = {};
};
// By the names that families give them; nullopt: the vocabulary has none.
std::optional<FillInTokens> find_fill_in_tokens(const TextCodec& codec);

struct FillIn {
  struct File {
    std::string name, text;
  };
  std::vector<File> others;  // what the model should know of beside the file with the gap
  std::string before, after;
  std::string begun;  // the first words of the gap
};
Result<std::vector<TokenId>> fill_in_prompt(const FillIn& gap, const FillInTokens& tokens,
                                            const TextCodec& codec);

}  // namespace quire::server
