// These functions read the `prompt` of a completions request in all its forms, tokenize it and cut
// it to size.
#pragma once

#include <boost/json/value.hpp>
#include <vector>

#include "server/http/api_error.h"
#include "server/http/server_options.h"
#include "server/openai/chunk_builder.h"
#include "server/openai/request_fields.h"
#include "server/openai/served_model.h"

namespace quire::server {

// Reads a string, a list of strings, a list of ids or a list of such lists. Ids are checked against
// the vocabulary.
ApiResult<std::vector<PromptInfo>> read_prompts(const boost::json::value& prompt,
                                                bool add_special_tokens, const ServedModel& model,
                                                uint32_t max_prompts);
// Reads a list of token ids below vocab_size. `where` names it in errors.
ApiResult<std::vector<TokenId>> read_token_ids(const boost::json::value& value,
                                               const std::string& where, int32_t vocab_size);
// Applies truncate_prompt_tokens and truncation_side. -1 keeps as many tokens as the context leaves
// beside the requested answer. Returns whether anything was cut.
bool truncate_prompt(const RequestFields& fields, const ServedModel& model,
                     std::vector<TokenId>& ids);

}  // namespace quire::server
