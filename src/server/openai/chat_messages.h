// normalize_messages() gives the messages of a chat request the form that templates expect: content
// as text, tool-call arguments parsed, one name for reasoning.
#pragma once

#include <boost/json/array.hpp>
#include <string>
#include <vector>

#include "server/http/api_error.h"
#include "server/media/chat_images.h"

namespace quire::server {

// What a model's template accepts.
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

// Checks and converts messages. Roles must be strings. Content must be a string, null (absent) or a
// list of text parts, which are joined by newlines. With images the template gets the list, in
// which images are {"type": "image"}; audio and video are refused. Arguments of tool calls become
// objects, as templates expect.
ApiResult<ChatMessages> normalize_messages(boost::json::array messages,
                                           const ChatContentRules& rules = {});

}  // namespace quire::server
