// In the GPT-2 byte alphabet every byte has a printable character, so that vocabularies of bytes
// can be written as text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quire {

// Returns the character that stands for `byte`.
char32_t byte_level_char(unsigned char byte);

// Writes bytes as their characters, UTF-8 encoded.
std::string byte_level_encode(std::string_view bytes);

// Returns the bytes that a piece stands for; nullopt when a character of it is not in the alphabet.
std::optional<std::string> byte_level_decode(std::string_view piece);

}  // namespace quire
