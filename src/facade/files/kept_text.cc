#include "facade/files/kept_text.h"

#include <filesystem>
#include <fstream>

#include "base/rng.h"

namespace quire {

// The part's name is random, since processes in different containers may have the same id.
Status keep_text(std::string_view text, const std::string& path) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  const std::string part = fmt::format("{}.{:016x}", path, random_seed());
  std::ofstream out(part, std::ios::binary);
  out << text;
  out.close();
  if (out) std::filesystem::rename(part, path, error);
  if (out && !error) return {};
  std::filesystem::remove(part, error);
  return unavailable("{}: cannot be written", path);
}

}  // namespace quire
