// These functions treat UTF-8 text as Python's str does: lengths, indexes, white space, case and
// classes count code points. Broken UTF-8 is accepted (a stray byte counts as one code point), and
// no function fails.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire::jinja {

int64_t num_code_points(std::string_view text);

// Returns the code point at byte `position` and moves `position` past it. `position` must be below
// text.size().
char32_t next_code_point(std::string_view text, size_t& position);
void append_code_point(std::string& out, char32_t code);

// Returns the byte offset of code point `index`; `text.size()` when the text is shorter. `length`
// is num_code_points(text).
size_t byte_offset(std::string_view text, int64_t index, int64_t length);

bool is_space(char32_t code);    // str.isspace, regular expression \s
bool is_alpha(char32_t code);    // str.isalpha
bool is_decimal(char32_t code);  // str.isdecimal
bool is_digit(char32_t code);    // str.isdigit
bool is_numeric(char32_t code);  // str.isnumeric
bool is_upper(char32_t code);
bool is_lower(char32_t code);
bool is_title(char32_t code);
bool is_printable(char32_t code);  // repr() prints it as it is

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
// The first code point becomes title case, the rest lower case.
std::string to_capitalized(std::string_view text);
std::string to_title(std::string_view text);  // str.title
std::string swap_case(std::string_view text);

// For str.strip, which removes white space or the code points of `chars`.
enum class Side { kLeft, kRight, kBoth };
std::string_view strip(std::string_view text, Side side,
                       std::optional<std::string_view> chars = std::nullopt);

// Computes str.splitlines.
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends = false);

// Computes repr() of a str, with quotes.
std::string quoted(std::string_view text);

}  // namespace quire::jinja
