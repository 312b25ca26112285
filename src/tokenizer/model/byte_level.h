// The byte alphabet of GPT-2 has a printable character for every byte, so that vocabularies of
// bytes can be written as text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quire {

// Returns the character that stands for `byte`.
char32_t byte_level_char(unsigned char byte);

// Writes bytes as their characters, UTF-8 encoded.
std::string byte_level_encode(std::string_view bytes);

// Returns the bytes that a piece stands for, or nullopt if one of its characters is not in the
// alphabet.
std::optional<std::string> byte_level_decode(std::string_view piece);

}  // namespace quire
