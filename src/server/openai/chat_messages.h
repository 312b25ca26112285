// The messages of a chat request, made regular for the template: text content, parsed tool-call
// arguments, one name for reasoning.
#pragma once

#include <boost/json/array.hpp>
#include <string>

#include "server/http/api_error.h"

namespace quire::server {

struct ChatMessages {
  boost::json::array messages;
  std::string last_role;
  std::string last_content;
};

// Roles are strings; content is a string, null (absent) or a list of text parts, which are joined
// by newlines. Media parts are refused: no model here reads them. Arguments of tool calls become
// objects, as templates expect.
ApiResult<ChatMessages> normalize_messages(boost::json::array messages);

}  // namespace quire::server
