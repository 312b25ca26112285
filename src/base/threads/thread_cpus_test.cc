#include "base/threads/thread_cpus.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/threads/cpu_topology.h"

namespace quire {
namespace {

TEST(ThreadCpus, HoldForAThreadAndThoseThatItStartsUntilTheEnd) {
  const std::vector<int> before = allowed_cpus();
  ASSERT_FALSE(before.empty());
  const std::vector<int> last = {before.back()};
  {
    const ThreadCpus kept(last);
    EXPECT_EQ(allowed_cpus(), last);
    EXPECT_EQ(one_cpu_per_core(), last);
    std::thread([&] { EXPECT_EQ(allowed_cpus(), last); }).join();
  }
  EXPECT_EQ(allowed_cpus(), before);
}

TEST(ThreadCpus, NoneChangeNothing) {
  const std::vector<int> before = allowed_cpus();
  const ThreadCpus kept({});
  EXPECT_EQ(allowed_cpus(), before);
}

}  // namespace
}  // namespace quire
