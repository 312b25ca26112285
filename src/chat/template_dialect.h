// Which dialect of tool calls a chat template speaks, shown by what it prints.
#pragma once

#include <boost/json/object.hpp>
#include <string>

#include "chat/chat_template.h"
#include "chat/dialects/dialect.h"

namespace quire {

struct TemplateCalls {
  const Dialect* dialect = nullptr;  // null: the template tells none that is known
  bool reads_back = false;           // whether calls that it prints are read back as the same
  std::string printed;               // what it prints for calls; empty: it prints none
};

// Renders a conversation with calls and reads them back: first in the dialect whose signs the
// template's source shows, then in every other. Without success the signs decide. Takes
// milliseconds; any thread. `special_tokens` as in ChatPromptOptions.
TemplateCalls calls_of_template(const ChatTemplate& chat_template,
                                const boost::json::object& special_tokens);

}  // namespace quire
