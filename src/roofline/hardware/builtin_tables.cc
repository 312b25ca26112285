#include "roofline/hardware/builtin_tables.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "base/text_fields.h"

namespace quire {

// The generated table_data.cc defines this: the files of assets/operators by name.
std::vector<std::pair<std::string, std::span<const std::byte>>> operator_blobs();

namespace {

constexpr size_t kMaxTableBytes = size_t{64} << 20;

bool is_of(std::string_view file, std::string_view hardware_name) {
  return file.size() > hardware_name.size() && file.starts_with(hardware_name) &&
         file[hardware_name.size()] == '.';
}

}  // namespace

bool has_builtin_tables(std::string_view hardware_name) {
  const auto blobs = operator_blobs();
  return std::any_of(blobs.begin(), blobs.end(),
                     [&](const auto& blob) { return is_of(blob.first, hardware_name); });
}

Result<std::vector<BuiltinTable>> builtin_tables(std::string_view hardware_name) {
  std::vector<BuiltinTable> tables;
  for (const auto& [file, bytes] : operator_blobs()) {
    if (!is_of(file, hardware_name)) continue;
    Result<std::string> text = gunzip(bytes, kMaxTableBytes);
    if (!text.ok()) return text.status().with_context(file);
    tables.push_back({.name = file, .text = std::move(*text)});
  }
  return tables;
}

}  // namespace quire
