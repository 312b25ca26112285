// Reads lines, fields and numbers from files with any content. Every error names the place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

// Reads the whole file, and unpacks one whose name ends in .gz. kNotFound: it cannot be read.
// kDataLoss: its .gz data is incomplete. kTooLarge: it is longer than max_bytes.
Result<std::string> read_text(const std::string& file, size_t max_bytes);
// Unpacks gzip data. kDataLoss: it is incomplete. kTooLarge: it is more than max_bytes.
Result<std::string> gunzip(std::span<const std::byte> packed, size_t max_bytes);

// LineReader returns lines without their ends (\n or \r\n).
class LineReader {
 public:
  LineReader(std::string_view text, std::string_view name) : text_(text), name_(name) {}
  std::optional<std::string_view> next();
  int64_t number() const { return number_; }  // of the last line, from 1
  std::string where() const;                  // "file:line"

 private:
  std::string_view text_;
  std::string name_;
  int64_t number_ = 0;
};

// Returns at least one part.
std::vector<std::string_view> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);

// The error message begins with `where`.
Result<int64_t> parse_integer(std::string_view text, int64_t low, int64_t high,
                              const std::string& where);
Result<double> parse_number(std::string_view text, double low, double high,
                            const std::string& where);
// Parses "2023-11-16 18:17:03.9799600", optionally with a T in the middle or a zone "+01:00" or "Z"
// at the end. Returns nanoseconds since 1970, in UTC if there is no zone.
Result<int64_t> parse_date_time_ns(std::string_view text, const std::string& where);

}  // namespace quire
