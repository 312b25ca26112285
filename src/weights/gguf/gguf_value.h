// GgufValue and GgufValueReader represent and read the metadata values of a GGUF file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "weights/gguf/gguf_cursor.h"

namespace quire {

// A GgufValue is one metadata value. Integers of every width are int64 or, above its range, uint64;
// floats are double. Strings borrow the file. Arrays are flat vectors of one kind; arrays of arrays
// nest.
struct GgufValue {
  using Array = std::vector<GgufValue>;
  std::variant<bool, int64_t, uint64_t, double, std::string_view, std::vector<uint8_t> /* bools */,
               std::vector<int64_t>, std::vector<uint64_t>, std::vector<double>,
               std::vector<std::string_view>, Array>
      value;

  // Each of these returns nullopt if the value has another kind. Numbers convert where nothing is
  // lost: an integer reads as a float, and a uint64 reads as an int64 if it fits.
  std::optional<bool> as_bool() const;
  std::optional<int64_t> as_int() const;
  std::optional<double> as_float() const;
  std::optional<std::string_view> as_string() const;
  std::optional<std::span<const std::string_view>> as_strings() const;
  std::optional<std::vector<int64_t>> as_ints() const;
  std::optional<std::vector<double>> as_floats() const;
};

// GgufValueReader reads the values of one file one after the other. It limits the array elements of
// all values together, so that a malicious file cannot exhaust memory with many arrays of moderate
// size.
class GgufValueReader {
 public:
  explicit GgufValueReader(GgufCursor& cursor) : cursor_(cursor) {}

  // Reads the value at the cursor: its type, then its bytes. `key` is for messages.
  Result<GgufValue> read(std::string_view key);

 private:
  GgufCursor& cursor_;
  uint64_t num_elements_ = 0;
};

}  // namespace quire
