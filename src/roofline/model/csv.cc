#include "roofline/model/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace quire {
namespace {

constexpr size_t kMaxBytes = size_t{256} << 20;
constexpr size_t kMaxColumns = 256;

std::string_view next_line(std::string_view& rest) {
  const size_t end = rest.find('\n');
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

size_t split(std::string_view line, std::vector<std::string_view>& fields) {
  size_t count = 0;
  while (true) {
    const size_t comma = line.find(',');
    fields.push_back(line.substr(0, comma));
    ++count;
    if (comma == std::string_view::npos) return count;
    line.remove_prefix(comma + 1);
  }
}

}  // namespace

Result<CsvTable> CsvTable::parse(std::string_view text, std::string_view where) {
  if (text.size() > kMaxBytes) {
    return too_large("{}: expected at most {} bytes, got {}", where, kMaxBytes, text.size());
  }
  CsvTable table;
  table.where_ = where;
  std::string_view rest = text;
  const std::string_view header = next_line(rest);
  if (header.empty()) return invalid_argument("{}:1: expected a header of column names", where);
  if (split(header, table.columns_) > kMaxColumns) {
    return too_large("{}:1: expected at most {} columns, got {}", where, kMaxColumns,
                     table.columns_.size());
  }
  for (int32_t line = 2; !rest.empty(); ++line) {
    const std::string_view row = next_line(rest);
    if (row.empty()) continue;
    if (row.find('"') != std::string_view::npos) {
      return invalid_argument("{}:{}: expected fields without quotes", where, line);
    }
    const size_t count = split(row, table.fields_);
    if (count != table.columns_.size()) {
      return invalid_argument("{}:{}: expected {} fields, got {}", where, line,
                              table.columns_.size(), count);
    }
    table.lines_.push_back(line);
  }
  return table;
}

bool CsvTable::has(std::string_view column) const {
  return std::find(columns_.begin(), columns_.end(), column) != columns_.end();
}

std::string CsvTable::place(size_t row) const { return fmt::format("{}:{}", where_, lines_[row]); }

Result<size_t> CsvTable::find(std::string_view column) const {
  const auto it = std::find(columns_.begin(), columns_.end(), column);
  if (it == columns_.end()) return invalid_argument("{}:1: expected a column {}", where_, column);
  return static_cast<size_t>(it - columns_.begin());
}

Result<std::string_view> CsvTable::field(size_t row, std::string_view column) const {
  QUIRE_ASSIGN_OR_RETURN(const size_t index, find(column));
  return fields_[row * columns_.size() + index];
}

Result<double> CsvTable::number(size_t row, std::string_view column) const {
  QUIRE_ASSIGN_OR_RETURN(const std::string_view text, field(row, column));
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return invalid_argument("{}: {}: expected a number, got {}", place(row), column,
                            text.substr(0, 60));
  }
  return value;
}

Result<int32_t> CsvTable::whole(size_t row, std::string_view column, int32_t least,
                                int32_t most) const {
  QUIRE_ASSIGN_OR_RETURN(const double value, number(row, column));
  if (value >= least && value <= most && value == std::floor(value)) {
    return static_cast<int32_t>(value);
  }
  return invalid_argument("{}: {}: expected a whole number from {} to {}, got {:g}", place(row),
                          column, least, most, value);
}

Result<double> CsvTable::latency_us(size_t row) const {
  QUIRE_ASSIGN_OR_RETURN(const double value, number(row, "latency"));
  if (value > 0 && value <= 1e7) return value * 1e3;
  return invalid_argument("{}: latency: expected milliseconds above 0, got {:g}", place(row),
                          value);
}

}  // namespace quire
