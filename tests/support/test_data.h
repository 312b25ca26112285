// These functions find the files of tests.
//
//   // Skips the test, with a message, if the shared data is absent.
//   QUIRE_REQUIRE_SHARED(dir, "tokenizers/qwen2");
//   // Decompresses a file whose name ends in .gz.
//   std::string text = quire::test::read_file(dir / "tokenizer.json");
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace quire::test {

// Returns the root of the checkout.
std::filesystem::path source_dir();

// Returns `relative` below the shared data folder ($QUIRE_TEST_DATA, else ../shared/data beside the
// checkout), or nullopt if it does not exist.
std::optional<std::filesystem::path> shared_data(const std::string& relative);

// Returns the whole file, decompressed if its name ends in .gz. Aborts the test program if the file
// cannot be read.
std::string read_file(const std::filesystem::path& path);

}  // namespace quire::test

#define QUIRE_REQUIRE_SHARED(name, relative)                                          \
  const auto name##_opt = ::quire::test::shared_data(relative);                       \
  if (!name##_opt) {                                                                  \
    GTEST_SKIP() << "SKIPPED: shared test data '" << (relative)                       \
                 << "' is not here; set QUIRE_TEST_DATA to the folder that holds it"; \
  }                                                                                   \
  const std::filesystem::path name = *name##_opt
