#include "exec/free_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace quire {
namespace {

class ControlGroupTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(root_); }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  int64_t limit(const std::string& groups) const { return control_group_limit(groups, root_); }

  const std::filesystem::path root_ = std::filesystem::path(::testing::TempDir()) / "quire_cgroups";
};

TEST_F(ControlGroupTest, TheTightestOfTheGroupAndThoseAboveIt) {
  write("memory.max", "max");
  write("system.slice/memory.max", "5000");
  write("system.slice/quire.service/memory.max", "9000");
  write("other.slice/memory.max", "100");
  EXPECT_EQ(limit("0::/system.slice/quire.service\n"), 5000);
  write("system.slice/quire.service/memory.max", "3000");
  EXPECT_EQ(limit("0::/system.slice/quire.service\n"), 3000);
  EXPECT_EQ(limit("0::/system.slice\n"), 5000);
  EXPECT_EQ(limit("0::/\n"), -1);
}

TEST_F(ControlGroupTest, InAContainerTheMountIsTheGroup) {
  write("memory.max", "7000");
  EXPECT_EQ(limit("0::/\n"), 7000);
  EXPECT_EQ(limit("0::/../../unknown\n"), 7000);
  EXPECT_EQ(limit(""), 7000);
}

TEST_F(ControlGroupTest, VersionOne) {
  write("memory/memory.limit_in_bytes", "9223372036854771712");
  write("memory/jobs/17/memory.limit_in_bytes", "4096");
  write("jobs/17/memory.max", "1");  // of no hierarchy
  EXPECT_EQ(limit("9:cpu,cpuacct:/\n4:blkio,memory:/jobs/17\n0::/\n"), 4096);
  EXPECT_EQ(limit("5:memory_other:/jobs/17\n"), 9223372036854771712);
}

TEST_F(ControlGroupTest, NonsenseIsNoLimit) {
  write("a/memory.max", "-5");
  for (const char* text : {"", "\n", "0", "0:", "0::", "::", ":memory", "0::a\n", "0::/a\n"}) {
    EXPECT_EQ(limit(text), -1) << text;
  }
}

TEST(FreeMemory, IsSomeOfTheMachines) {
  const int64_t bytes = free_memory_bytes();
  EXPECT_GT(bytes, 0);
  EXPECT_LT(bytes, int64_t{1} << 50);
}

}  // namespace
}  // namespace quire
