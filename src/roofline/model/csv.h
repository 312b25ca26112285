// A CsvTable is a comma-separated table with a header line, as operator timings come. There is no
// quoting: a quote is refused.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

class CsvTable {
 public:
  // The text is hostile until checked, and borrowed. Every row has as many fields as the header.
  static Result<CsvTable> parse(std::string_view text, std::string_view where);

  size_t num_rows() const { return columns_.empty() ? 0 : fields_.size() / columns_.size(); }
  bool has(std::string_view column) const;
  // Errors name the file, the line, the column and what came.
  Result<double> number(size_t row, std::string_view column) const;
  Result<int32_t> whole(size_t row, std::string_view column, int32_t least, int32_t most) const;
  // Reads the column `latency`, which has milliseconds in the file, above 0 and up to 1e7.
  Result<double> latency_us(size_t row) const;
  Result<std::string_view> field(size_t row, std::string_view column) const;

 private:
  Result<size_t> find(std::string_view column) const;

  std::string where_;
  std::vector<std::string_view> columns_;
  std::vector<std::string_view> fields_;  // row by row
};

}  // namespace quire
