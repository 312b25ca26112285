// calls_of_template() finds the dialect of tool calls that a chat template uses, from what it
// prints.
#pragma once

#include <boost/json/object.hpp>
#include <string>

#include "chat/chat_template.h"
#include "chat/dialects/dialect.h"

namespace quire {

struct TemplateCalls {
  const Dialect* dialect = nullptr;  // null: no known dialect
  bool reads_back = false;           // calls that it prints are parsed to the same calls
  std::string printed;               // what it prints for calls; empty: nothing
};

// Renders a conversation with calls and parses what the template prints: first in the dialect whose
// signs its source shows, then in every other dialect. If none can parse it, the signs decide. It
// takes milliseconds, and any thread may call it. `special_tokens` is as in ChatPromptOptions.
TemplateCalls calls_of_template(const ChatTemplate& chat_template,
                                const boost::json::object& special_tokens);

}  // namespace quire
