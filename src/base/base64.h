#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quire {

// Decodes the standard alphabet; padding is optional. nullopt when `text` is not base64.
std::optional<std::string> base64_decode(std::string_view text);
// In the standard alphabet, padded.
std::string base64_encode(std::string_view bytes);

}  // namespace quire
