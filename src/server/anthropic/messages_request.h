// The fields of a request of Anthropic's Messages API, and what they mean in those of a chat.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <span>

#include "server/openai/request_fields.h"

namespace quire::server {

std::span<const Field> messages_field_table();

// The messages of a conversation, appended to `f` as those of a chat; each result of a tool becomes
// a message of its own. A last message of the assistant is gone on with.
ApiCheck read_messages(RequestFields& f, boost::json::value& messages);

}  // namespace quire::server
