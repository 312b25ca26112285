#include "sim/workload/csv_reader.h"

#include <cmath>

#include "sim/workload/trace_formats.h"

namespace quire::sim {

std::vector<std::string_view> split_csv(std::string_view line) {
  std::vector<std::string_view> fields = split(line, ',');
  if (line.find('"') == line.npos) return fields;
  fields.clear();
  while (true) {
    const size_t begin = line.find_first_not_of(" \t");
    const bool quoted = begin != line.npos && line[begin] == '"';
    const size_t close = quoted ? line.find('"', begin + 1) : line.npos;
    const size_t end = line.find(',', close == line.npos ? 0 : close);
    fields.push_back(close == line.npos ? line.substr(0, end)
                                        : line.substr(begin + 1, close - begin - 1));
    if (end == line.npos) return fields;
    line.remove_prefix(end + 1);
  }
}

CsvReader::CsvReader(std::string_view text, std::string_view name) : lines_(text, name) {
  // A file may begin with a byte order mark.
  if (const auto header = lines_.next()) {
    names_ = split_csv(header->substr(header->starts_with("\xEF\xBB\xBF") ? 3 : 0));
  }
}

std::optional<size_t> CsvReader::find(std::string_view column) const {
  for (size_t i = 0; i < names_.size(); ++i) {
    if (trim(names_[i]) == column) return i;
  }
  return std::nullopt;
}

Result<size_t> CsvReader::column(std::string_view name) const {
  if (const auto found = find(name)) return *found;
  return invalid_argument("{}: expected a column '{}'", lines_.where(), name);
}

Result<bool> CsvReader::next() {
  std::optional<std::string_view> line;
  do {
    line = lines_.next();
    if (!line) return false;
  } while (line->empty());
  fields_ = split_csv(*line);
  if (fields_.size() == names_.size()) return true;
  return invalid_argument("{}: expected {} fields, got {}", lines_.where(), names_.size(),
                          fields_.size());
}

std::string CsvReader::where(size_t column) const {
  return fmt::format("{}: {}", lines_.where(), trim(names_[column]));
}

Result<int64_t> CsvReader::tokens(size_t column, int64_t low) const {
  return parse_integer(fields_[column], low, kMaxTraceTokens, where(column));
}

Result<int64_t> CsvReader::seconds_ns(size_t column) const {
  QUIRE_ASSIGN_OR_RETURN(const double s,
                         parse_number(fields_[column], 0, kMaxTraceSeconds, where(column)));
  return static_cast<int64_t>(std::llround(s * 1e9));
}

}  // namespace quire::sim
