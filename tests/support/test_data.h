// Where tests find their files.
//
//   QUIRE_REQUIRE_SHARED(dir, "tokenizers/qwen2");   // skips the test, loudly, when the shared
//   data is absent std::string text = quire::test::read_file(dir / "tokenizer.json");   // *.gz is
//   unpacked
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace quire::test {

// The root of the checkout.
std::filesystem::path source_dir();

// `relative` below the shared data folder ($QUIRE_TEST_DATA, else ../shared/data beside the
// checkout), or nullopt when it is not there.
std::optional<std::filesystem::path> shared_data(const std::string& relative);

// The whole file; a name that ends in .gz is unpacked. Aborts the test program when it cannot be
// read.
std::string read_file(const std::filesystem::path& path);

}  // namespace quire::test

#define QUIRE_REQUIRE_SHARED(name, relative)                                          \
  const auto name##_opt = ::quire::test::shared_data(relative);                       \
  if (!name##_opt) {                                                                  \
    GTEST_SKIP() << "SKIPPED: shared test data '" << (relative)                       \
                 << "' is not here; set QUIRE_TEST_DATA to the folder that holds it"; \
  }                                                                                   \
  const std::filesystem::path name = *name##_opt
