// tool_call_id() names the tool calls of an answer in the form that the model's template accepts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "chat/dialects/dialect.h"

namespace quire::server {

struct ToolCallId {
  CallIds style = CallIds::kLong;
  std::string_view request_id;
  int32_t choice_index = 0;
  int32_t call_index = 0;
  int32_t num_earlier_calls = 0;  // in the conversation so far
  std::string_view name;          // name of the function
  std::string_view written;       // the id that the model wrote; empty: none
};

// Returns the id that the model wrote if it has the style's form. Otherwise it returns an id made
// of the request, the choice and the call.
std::string tool_call_id(const ToolCallId& id);

}  // namespace quire::server
