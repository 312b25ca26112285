// CsvTable: a comma-separated table with a header line, the format of operator timings. Quoting is
// not supported: a quote is an error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

class CsvTable {
 public:
  // Parses and borrows `text`, which is not trusted. Every row has as many fields as the header.
  static Result<CsvTable> parse(std::string_view text, std::string_view where);

  size_t num_rows() const { return columns_.empty() ? 0 : fields_.size() / columns_.size(); }
  bool has(std::string_view column) const;
  // Returns "file:line", where the row is; errors about a row begin with it.
  std::string place(size_t row) const;
  // Errors name the place and the column, and say what came.
  Result<double> number(size_t row, std::string_view column) const;
  Result<int32_t> whole(size_t row, std::string_view column, int32_t least, int32_t most) const;
  // Reads the column `latency`, which is in milliseconds in the file, above 0 and at most 1e7.
  Result<double> latency_us(size_t row) const;
  Result<std::string_view> field(size_t row, std::string_view column) const;

 private:
  Result<size_t> find(std::string_view column) const;

  std::string where_;
  std::vector<std::string_view> columns_;
  std::vector<std::string_view> fields_;  // row by row
  std::vector<int32_t> lines_;            // of each row, from 1
};

}  // namespace quire
