// A CsvReader reads a trace in CSV line by line. Columns are found by the names in its first line.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text_fields.h"

namespace quire::sim {

// Returns the fields of a line, without the quotes around quoted ones.
std::vector<std::string_view> split_csv(std::string_view line);

class CsvReader {
 public:
  // Borrows the text.
  CsvReader(std::string_view text, std::string_view name);

  const std::vector<std::string_view>& names() const { return names_; }
  // Returns the index of a column, or nullopt if there is none with this name.
  std::optional<size_t> find(std::string_view column) const;
  Result<size_t> column(std::string_view name) const;
  // Reads the fields of the next line that is not empty. Returns false at the end of the text, and
  // an error if a line has not as many fields as there are columns.
  Result<bool> next();
  std::string_view field(size_t column) const { return fields_[column]; }
  std::string where() const { return lines_.where(); }
  std::string where(size_t column) const;
  Result<int64_t> tokens(size_t column, int64_t low) const;
  Result<int64_t> seconds_ns(size_t column) const;

 private:
  LineReader lines_;
  std::vector<std::string_view> names_;
  std::vector<std::string_view> fields_;
};

}  // namespace quire::sim
