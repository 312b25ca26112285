#include "tests/support/test_data.h"

#include <zlib.h>

#include <cstdio>
#include <cstdlib>

namespace quire::test {

std::filesystem::path source_dir() {
  // Programs that were built in another place give the path of the checkout.
  const char* env = std::getenv("QUIRE_TEST_SOURCE_DIR");
  return env ? env : QUIRE_SOURCE_DIR;
}

std::optional<std::filesystem::path> shared_data(const std::string& relative) {
  const char* env = std::getenv("QUIRE_TEST_DATA");
  const std::filesystem::path root = env ? env : source_dir().parent_path() / "shared" / "data";
  std::filesystem::path path = root / relative;
  if (!std::filesystem::exists(path)) return std::nullopt;
  return path;
}

std::string read_file(const std::filesystem::path& path) {
  gzFile file = gzopen(path.c_str(), "rb");  // reads plain files as they are
  if (file == nullptr) {
    std::fprintf(stderr, "cannot open %s\n", path.c_str());
    std::abort();
  }
  std::string text;
  char buffer[1 << 16];
  int n = 0;
  while ((n = gzread(file, buffer, sizeof buffer)) > 0) text.append(buffer, static_cast<size_t>(n));
  gzclose(file);
  if (n < 0) {
    std::fprintf(stderr, "cannot read %s\n", path.c_str());
    std::abort();
  }
  return text;
}

}  // namespace quire::test
