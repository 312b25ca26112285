#include "fetch/partial_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_folder.h"

namespace quire::fetch {
namespace {

TEST(PartialFile, GoesOnWhereItWas) {
  const test::TempFolder folder;
  const std::string path = (folder / "part").string();
  uint64_t seen = 0;
  const auto open = [&] { return PartialFile::open(path, [&](uint64_t size) { seen = size; }); };
  {
    auto part = open();
    ASSERT_TRUE(part.ok());
    EXPECT_EQ(part->size_bytes(), 0u);
    ASSERT_TRUE(part->begin("\"v1\"").ok());
    ASSERT_TRUE(part->append("ab").ok());
  }
  auto part = open();
  ASSERT_TRUE(part.ok());
  EXPECT_EQ(part->size_bytes(), 2u);
  EXPECT_EQ(part->version(), "\"v1\"");
  ASSERT_TRUE(part->append("c").ok());
  EXPECT_EQ(seen, 3u);
  EXPECT_EQ(part->sha256(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  ASSERT_TRUE(part->finish((folder / "whole").string()).ok());
  EXPECT_EQ(std::filesystem::file_size(folder / "whole"), 3u);
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_FALSE(std::filesystem::exists(path + ".version"));
}

TEST(PartialFile, BeginsAnew) {
  const test::TempFolder folder;
  const std::string path = (folder / "part").string();
  std::ofstream(path) << "old bytes";
  auto part = PartialFile::open(path, {});
  ASSERT_TRUE(part.ok());
  EXPECT_EQ(part->version(), "");
  ASSERT_TRUE(part->begin({}).ok());
  ASSERT_TRUE(part->append("abc").ok());
  EXPECT_EQ(part->sha256(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  part->remove();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(PartialFile, FollowsNoLink) {
  const test::TempFolder folder;
  std::ofstream(folder / "precious") << "mine";
  std::filesystem::create_symlink(folder / "precious", folder / "part");
  EXPECT_FALSE(PartialFile::open((folder / "part").string(), {}).ok());
  EXPECT_EQ(std::filesystem::file_size(folder / "precious"), 4u);
}

}  // namespace
}  // namespace quire::fetch
