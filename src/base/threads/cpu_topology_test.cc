#include "base/threads/cpu_topology.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_folder.h"

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

TEST(NumbersOfList, AreThoseOfTheRanges) {
  EXPECT_EQ(numbers_of_list("0-3,8,10-11\n"), (std::vector<int>{0, 1, 2, 3, 8, 10, 11}));
  EXPECT_EQ(numbers_of_list("5"), std::vector<int>{5});
  EXPECT_EQ(numbers_of_list("8,1"), (std::vector<int>{1, 8}));
  for (const char* text : {"", "\n", "x", "3-1", "-2", "1-", "0-99999999", ",,"})
    EXPECT_EQ(numbers_of_list(text), std::vector<int>{}) << text;
}

// A folder like /sys/devices/system.
class MemoryNodes : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path) << text << '\n';
  }
  std::vector<std::pair<int, std::vector<int>>> nodes(const std::vector<int>& cpus) const {
    std::vector<std::pair<int, std::vector<int>>> found;
    for (const MemoryNode& node : memory_nodes(folder_.string(), cpus))
      found.emplace_back(node.number, node.cpus);
    return found;
  }
  using Found = std::vector<std::pair<int, std::vector<int>>>;
  const std::vector<int> all_ = {0, 1, 2, 3, 4, 5, 6, 7};
  test::TempFolder folder_;
};

TEST_F(MemoryNodes, HaveTheCpusBesideThem) {
  write("cpu/online", "0-7");
  write("node/online", "0-1");
  write("node/has_memory", "0-1");
  write("node/node0/cpulist", "0-1,4-5");
  write("node/node1/cpulist", "2-3,6-7");
  EXPECT_EQ(nodes(all_), (Found{{0, {0, 1, 4, 5}}, {1, {2, 3, 6, 7}}}));
  EXPECT_EQ(nodes({1, 2, 3}), (Found{{0, {1}}, {1, {2, 3}}}));
  EXPECT_EQ(nodes({6}), (Found{{1, {6}}}));  // as in a container
}

TEST_F(MemoryNodes, ThatHaveNoMemoryOrNoCpusAreLeftOut) {
  write("cpu/online", "0-7");
  write("node/online", "0,2-4");
  write("node/has_memory", "0,3-4");
  write("node/node0/cpulist", "0-3");
  write("node/node2/cpulist", "4-5");  // a node without memory; node 3 is nearer than node 0
  write("node/node2/distance", "21 10 12 31");
  write("node/node3/cpulist", "6-7");
  write("node/node4/cpulist", "");  // memory without CPUs
  EXPECT_EQ(nodes(all_), (Found{{0, {0, 1, 2, 3}}, {3, {4, 5, 6, 7}}}));
}

TEST_F(MemoryNodes, DoNotHaveCpusThatAreOffline) {
  write("cpu/online", "0-2,4");
  write("node/online", "0-1");
  write("node/node0/cpulist", "0-3");
  write("node/node1/cpulist", "4-7");
  EXPECT_EQ(nodes(all_), (Found{{0, {0, 1, 2}}, {1, {4}}}));
}

TEST_F(MemoryNodes, AreNoneWhereTheSystemSaysNothing) {
  EXPECT_EQ(nodes(all_), Found{});
  write("node/online", "rubbish");
  EXPECT_EQ(nodes(all_), Found{});
}

TEST(CpusOfPart, AreWholeNodesOrOneThatIsShared) {
  const std::vector<MemoryNode> nodes = {{0, {0, 4}}, {1, {1, 5}}, {3, {2, 6}}};
  using Cpus = std::vector<int>;
  EXPECT_EQ(cpus_of_part(nodes, 0, 3), (Cpus{0, 4}));
  EXPECT_EQ(cpus_of_part(nodes, 2, 3), (Cpus{2, 6}));
  EXPECT_EQ(cpus_of_part(nodes, 0, 2), (Cpus{0, 4}));
  EXPECT_EQ(cpus_of_part(nodes, 1, 2), (Cpus{1, 2, 5, 6}));
  for (int part = 0; part < 6; ++part)
    EXPECT_EQ(cpus_of_part(nodes, part, 6), nodes[static_cast<size_t>(part / 2)].cpus);
}

TEST(CpusOfPart, AreAllWhereThereIsOnePartOrOneNode) {
  const std::vector<int> whole = {allowed_cpus().front()};
  EXPECT_EQ(cpus_of_part(whole, 0, 1), whole);
  EXPECT_EQ(cpus_of_part(whole, 1, 2), whole);
  EXPECT_EQ(cpus_of_part(std::vector<int>{}, 0, 1), std::vector<int>{});
}

TEST(DefaultNumThreads, IsNeverMoreThanTheCores) {
  EXPECT_GE(default_num_threads(), 1);
  EXPECT_LE(default_num_threads(), num_physical_cores());
}

}  // namespace
}  // namespace quire
