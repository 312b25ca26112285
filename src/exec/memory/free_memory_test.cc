#include "exec/memory/free_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_folder.h"

namespace quire {
namespace {

class ControlGroupTest : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  int64_t room(const std::string& groups) const { return control_group_room(groups, root_.path()); }

  const test::TempFolder root_;
};

TEST_F(ControlGroupTest, TheTightestOfTheGroupAndThoseAboveIt) {
  write("memory.max", "max");
  write("system.slice/memory.max", "5000");
  write("system.slice/quire.service/memory.max", "9000");
  write("other.slice/memory.max", "100");
  EXPECT_EQ(room("0::/system.slice/quire.service\n"), 5000);
  write("system.slice/quire.service/memory.max", "3000");
  EXPECT_EQ(room("0::/system.slice/quire.service\n"), 3000);
  EXPECT_EQ(room("0::/system.slice\n"), 5000);
  EXPECT_EQ(room("0::/\n"), -1);
}

TEST_F(ControlGroupTest, InAContainerTheMountIsTheGroup) {
  write("memory.max", "7000");
  EXPECT_EQ(room("0::/\n"), 7000);
  EXPECT_EQ(room("0::/../../unknown\n"), 7000);
  EXPECT_EQ(room(""), 7000);
}

TEST_F(ControlGroupTest, VersionOne) {
  write("memory/memory.limit_in_bytes", "9223372036854771712");
  write("memory/jobs/17/memory.limit_in_bytes", "4096");
  write("jobs/17/memory.max", "1");  // belongs to no mounted hierarchy
  EXPECT_EQ(room("9:cpu,cpuacct:/\n4:blkio,memory:/jobs/17\n0::/\n"), 4096);
  EXPECT_EQ(room("5:memory_other:/jobs/17\n"), 9223372036854771712);
}

TEST_F(ControlGroupTest, WhatIsUsedIsNotFree) {
  write("job/memory.max", "10000");
  write("job/memory.current", "6000");
  EXPECT_EQ(room("0::/job\n"), 4000);
  // File pages can be reclaimed; shared memory is in `file`, but not among them.
  write("job/memory.stat", "anon 2500\nfile 3500\nshmem 500\ninactive_file 1000\nactive_file 2000");
  EXPECT_EQ(room("0::/job\n"), 7000);
  write("job/memory.current", "13000");  // as after the limit was lowered
  EXPECT_EQ(room("0::/job\n"), 0);
  write("job/memory.current", "100");  // as if read a moment before memory.stat
  EXPECT_EQ(room("0::/job\n"), 10000);
  write("memory.max", "20000");  // a sibling group uses the parent's memory
  write("memory.current", "19000");
  EXPECT_EQ(room("0::/job\n"), 1000);
}

TEST_F(ControlGroupTest, WhatIsUsedOfVersionOne) {
  write("memory/jobs/17/memory.limit_in_bytes", "10000");
  write("memory/jobs/17/memory.usage_in_bytes", "9000");
  EXPECT_EQ(room("4:memory:/jobs/17\n"), 1000);
  // The fields without total_ leave out child groups, which the usage includes.
  write("memory/jobs/17/memory.stat",
        "inactive_file 1\nactive_file 1\ntotal_inactive_file 2000\ntotal_active_file 300");
  EXPECT_EQ(room("4:memory:/jobs/17\n"), 3300);
  write("memory/memory.limit_in_bytes", "500");
  EXPECT_EQ(room("4:memory:/unknown\n"), 500);
}

TEST_F(ControlGroupTest, NonsenseIsNoLimit) {
  write("a/memory.max", "-5");
  for (const char* text : {"", "\n", "0", "0:", "0::", "::", ":memory", "0::a\n", "0::/a\n"}) {
    EXPECT_EQ(room(text), -1) << text;
  }
}

TEST(FreeMemory, IsSomeOfTheMachines) {
  const int64_t bytes = free_memory_bytes();
  EXPECT_GT(bytes, 0);
  EXPECT_LT(bytes, int64_t{1} << 50);
}

}  // namespace
}  // namespace quire
