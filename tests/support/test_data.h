// These functions find the files of tests.
//
//   // Skips the test, loudly, when the shared data is absent.
//   QUIRE_REQUIRE_SHARED(dir, "tokenizers/qwen2");
//   // Unpacks a file that ends in .gz.
//   std::string text = quire::test::read_file(dir / "tokenizer.json");
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace quire::test {

// Returns the root of the checkout.
std::filesystem::path source_dir();

// Returns `relative` below the shared data folder ($QUIRE_TEST_DATA, else ../shared/data beside the
// checkout), or nullopt when it is not there.
std::optional<std::filesystem::path> shared_data(const std::string& relative);

// Returns the whole file, unpacked when its name ends in .gz. It aborts the test program when the
// file cannot be read.
std::string read_file(const std::filesystem::path& path);

}  // namespace quire::test

#define QUIRE_REQUIRE_SHARED(name, relative)                                          \
  const auto name##_opt = ::quire::test::shared_data(relative);                       \
  if (!name##_opt) {                                                                  \
    GTEST_SKIP() << "SKIPPED: shared test data '" << (relative)                       \
                 << "' is not here; set QUIRE_TEST_DATA to the folder that holds it"; \
  }                                                                                   \
  const std::filesystem::path name = *name##_opt
