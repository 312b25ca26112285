#include "tests/support/temp_folder.h"

#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace quire::test {

TempFolder::TempFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "quire_test_XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    std::perror(pattern.c_str());
    std::abort();
  }
  path_ = pattern;
}

TempFolder::~TempFolder() {
  // A folder that cannot be removed does not make the test fail, because the test has ended by
  // then.
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace quire::test
