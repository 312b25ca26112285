#include "base/threads/cpu_topology.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(CpuQuota, IsRoundedUpToWholeCpus) {
  EXPECT_EQ(cpus_of_quota("150000 100000\n"), 2);
  EXPECT_EQ(cpus_of_quota("200000 100000\n"), 2);
  EXPECT_EQ(cpus_of_quota("10000 100000\n"), 1);
  EXPECT_EQ(cpus_of_quota("6400000 100000"), 64);
  EXPECT_EQ(cpus_of_quota("150000\n", "100000\n"), 2);
  EXPECT_EQ(cpus_of_quota("9223372036854775807 1"), 1 << 20);
}

TEST(CpuQuota, NoLimitAndNoQuotaAreNone) {
  for (const char* text : {"max 100000\n", "", "\n", "150000", "150000 ", "a b", "100000 0",
                           "0 100000", "-1 100000", "99999999999999999999 1"}) {
    EXPECT_EQ(cpus_of_quota(text), 0) << text;
  }
  EXPECT_EQ(cpus_of_quota("-1\n", "100000\n"), 0);
  EXPECT_EQ(cpus_of_quota("", ""), 0);
}

TEST(CgroupPath, IsThatOfTheHierarchy) {
  constexpr std::string_view text =
      "12:cpuset:/sets\n4:cpu,cpuacct:/docker/abc\n3:memory:/\nrubbish\n0::/user.slice/a:b\n";
  EXPECT_EQ(cgroup_path(text, ""), "/user.slice/a:b");
  EXPECT_EQ(cgroup_path(text, "cpu"), "/docker/abc");
  EXPECT_EQ(cgroup_path(text, "cpuacct"), "/docker/abc");
  EXPECT_EQ(cgroup_path(text, "memory"), "");  // the mount's own folder
  EXPECT_EQ(cgroup_path(text, "pids"), "");
  EXPECT_EQ(cgroup_path("", ""), "");
  EXPECT_EQ(cgroup_path("0::/only", ""), "/only");
}

TEST(DefaultNumThreads, IsNeverMoreThanTheCores) {
  EXPECT_GE(default_num_threads(), 1);
  EXPECT_LE(default_num_threads(), num_physical_cores());
}

}  // namespace
}  // namespace quire
