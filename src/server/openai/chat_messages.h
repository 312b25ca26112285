// The messages of a chat request, made regular for the template: text content, parsed tool-call
// arguments, one name for reasoning.
#pragma once

#include <boost/json/array.hpp>
#include <string>
#include <vector>

#include "server/http/api_error.h"
#include "server/media/chat_images.h"

namespace quire::server {

// What a model's template takes.
struct ChatContentRules {
  bool reads_images = false;
  bool in_parts = false;  // content is always a list of parts
};

struct ChatMessages {
  boost::json::array messages;
  std::vector<ImagePart> images;  // in the order of the conversation
  std::string last_role;
  std::string last_content;
};

// Roles are strings; content is a string, null (absent) or a list of text parts, which are joined
// by newlines. With images the template gets the list, in which they stand as {"type": "image"};
// audio and video are refused. Arguments of tool calls become objects, as templates expect.
ApiResult<ChatMessages> normalize_messages(boost::json::array messages,
                                           const ChatContentRules& rules = {});

}  // namespace quire::server
