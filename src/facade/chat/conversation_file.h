// A conversation file holds {"messages": [{"role": "user", "content": "..."}, ...]}, the format of
// requests of /v1/chat/completions. Images are parts of the content, as data: URLs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "quire/llm.h"

namespace quire {

std::string conversation_text(const std::vector<ChatMessage>& messages);
// Parses a conversation file. kInvalidArgument: the format is wrong, or the messages are not an
// optional system message followed by the user's questions, each with its answer.
Result<std::vector<ChatMessage>> parse_conversation(std::string_view text);

}  // namespace quire
