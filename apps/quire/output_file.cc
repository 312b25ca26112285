#include "quire/output_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

namespace quire::cli {

Status check_writable(const std::string& path) {
  if (path.empty() || path == kStandardOutput) return {};
  std::error_code error;
  const bool existed = std::filesystem::exists(path, error);
  const bool is_special = existed && !std::filesystem::is_regular_file(path, error) &&
                          !std::filesystem::is_directory(path, error);
  if (is_special) return {};  // opening a pipe would wait for its reader
  const bool opens = std::ofstream(path, std::ios::binary | std::ios::app).is_open();
  if (opens && !existed) std::filesystem::remove(path, error);
  if (opens) return {};
  return unavailable("{}: cannot be written", path);
}

Status write_file(const std::string& path, const std::string& text) {
  if (path == kStandardOutput) {
    fmt::print("{}", text);
    return {};
  }
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (out) return {};
  return unavailable("{}: cannot be written", path);
}

}  // namespace quire::cli
