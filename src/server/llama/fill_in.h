// These functions make prompts that ask a model for the text between two other texts ("fill in the
// middle").
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "server/openai/served_model.h"

namespace quire::server {

// The tokens that mark the texts around a gap.
struct FillInTokens {
  TokenId prefix = 0, suffix = 0, middle = 0;
  // These stand before the name of a repository and before each of its files, in vocabularies that
  // have them.
  std::optional<TokenId> repository = {}, file = {};
};
// Finds the tokens by the names that model families give them; nullopt: the vocabulary has none of
// them.
std::optional<FillInTokens> find_fill_in_tokens(const TextCodec& codec);

struct FillIn {
  struct File {
    std::string name, text;
  };
  std::vector<File> others;  // other files that the model shall see
  std::string before, after;
  std::string begun;  // the beginning of the text in the gap
};
Result<std::vector<TokenId>> fill_in_prompt(const FillIn& gap, const FillInTokens& tokens,
                                            const TextCodec& codec);

}  // namespace quire::server
