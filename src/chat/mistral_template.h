// Mistral's models whose tokenizer is a tekken.json come without a chat template: the version of
// that file says how their chats are written.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quire {

// Returns a template for chats of version "v3", "v7", "v11", "v13" or "v15", or of a later one,
// which is taken to write them as v15 does; nullopt where `version` is no such name. It joins
// messages of one role that follow each other, and writes an image as [IMG].
// (Source: mistral-common, instruct.py.)
std::optional<std::string> mistral_chat_template(std::string_view version);

}  // namespace quire
