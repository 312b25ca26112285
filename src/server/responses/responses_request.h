// The fields of a request of OpenAI's Responses API, what they mean in those of a chat, and what of
// them is no chat's.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/openai/request_fields.h"

namespace quire::server {

std::span<const Field> responses_field_table();

// What a chat has no fields for.
struct ResponseOptions {
  boost::json::array input;  // items with ids
  std::optional<std::string> previous_response_id, instructions;
  bool stores = true;
  bool is_background = false;
  bool truncates = false;  // drops the oldest of the conversation where it is too long
  std::optional<std::vector<std::string>> allowed_tools;  // of all that the model sees
};

// Takes them out of `body`.
ApiResult<ResponseOptions> take_response_options(boost::json::object& body,
                                                 std::string_view response_id);
// Returns what a response repeats of its request, with defaults filled in: all that is known before
// it begins.
boost::json::object response_of_request(const boost::json::object& body, std::string_view id,
                                        std::string_view model, int64_t created_s);
}  // namespace quire::server
