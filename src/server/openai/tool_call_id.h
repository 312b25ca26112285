// Names for the calls of an answer, in the form that the model's template takes back.
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
  int32_t num_earlier_calls = 0;  // in the conversation
  std::string_view name;          // of the function
  std::string_view written;       // the id that the model wrote; empty: none
};

// Returns what the model wrote where that has the style's form, and otherwise a name made of the
// request, the choice and the call.
std::string tool_call_id(const ToolCallId& id);

}  // namespace quire::server
