// A conversation file holds {"messages": [{"role": "user", "content": "..."}, ...]}, as a request
// of /v1/chat/completions has it. Images are parts of the content, as data: URLs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "quire/llm.h"

namespace quire {

std::string conversation_text(const std::vector<ChatMessage>& messages);
// kInvalidArgument: it is written otherwise, or its messages are not a system message, if there is
// one, and then questions of the user, each with its answer.
Result<std::vector<ChatMessage>> parse_conversation(std::string_view text);

}  // namespace quire
