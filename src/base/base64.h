#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quire {

// Decodes the standard alphabet; padding is optional. nullopt when `text` is not base64.
std::optional<std::string> base64_decode(std::string_view text);
// Encodes in the standard alphabet, with padding.
std::string base64_encode(std::string_view bytes);

}  // namespace quire
