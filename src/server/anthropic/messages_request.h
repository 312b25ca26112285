// These are the fields of a request of Anthropic's Messages API, and how they become fields of a
// chat.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <span>

#include "server/openai/request_fields.h"

namespace quire::server {

std::span<const Field> messages_field_table();

// Appends the messages of a conversation to `f` as messages of a chat. Each tool result becomes a
// message of its own. A final message of the assistant is continued.
ApiCheck read_messages(RequestFields& f, boost::json::value& messages);

}  // namespace quire::server
