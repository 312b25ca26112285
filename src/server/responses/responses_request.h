// These are the fields of a request of OpenAI's Responses API: how they become fields of a chat,
// and those that a chat does not have.
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

// The options that a chat has no fields for.
struct ResponseOptions {
  boost::json::array input;  // items with ids
  std::optional<std::string> previous_response_id, instructions;
  bool stores = true;
  bool is_background = false;
  bool truncates = false;  // drops the oldest items of a conversation that is too long
  std::optional<std::vector<std::string>> allowed_tools;  // some of the tools that the model sees
};

// Reads the options and removes them from `body`.
ApiResult<ResponseOptions> take_response_options(boost::json::object& body,
                                                 std::string_view response_id);
// Returns the parts of a response that are known before it starts: those that repeat the request,
// with defaults filled in.
boost::json::object response_of_request(const boost::json::object& body, std::string_view id,
                                        std::string_view model, int64_t created_s);
}  // namespace quire::server
