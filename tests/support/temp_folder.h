// A TempFolder is a test's own folder for the files that it writes.
//
//   const quire::test::TempFolder folder;
//   std::ofstream(folder / "config.json") << "{}";
#pragma once

#include <filesystem>
#include <string>

namespace quire::test {

// Makes an empty folder whose name no other process or object uses. The destructor removes it with
// all its files. CTest runs tests of one fixture at the same time, so a test that used a fixed name
// would find the files of another.
class TempFolder {
 public:
  // Aborts the test program if the folder cannot be made.
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string string() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

inline std::filesystem::path operator/(const TempFolder& folder,
                                       const std::filesystem::path& name) {
  return folder.path() / name;
}

}  // namespace quire::test
