// Mistral's models with a tekken.json come without a chat template. The version of that file
// determines how their chats are written.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quire {

// Returns a template for chats of version "v3", "v7", "v11", "v13" or "v15". A later version is
// treated as v15. nullopt: `version` has another form. The template joins adjacent messages of the
// same role and writes an image as [IMG]. (Source: mistral-common, instruct.py.)
std::optional<std::string> mistral_chat_template(std::string_view version);

}  // namespace quire
