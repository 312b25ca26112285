#include "server/http/thread_times.h"

#include <gtest/gtest.h>

#include <thread>

namespace quire::server {
namespace {

TEST(ThreadTimes, TheTimeOfAThreadThatHasEndedStillCounts) {
  ThreadTimes times;
  double seen = 0;
  std::thread([&] {
    const ThreadTimes::Scope scope(times);
    while (times.cpu_seconds() < 0.01) continue;
    seen = times.cpu_seconds();
  }).join();
  EXPECT_GE(seen, 0.01);
  EXPECT_GE(times.cpu_seconds(), seen);
}

}  // namespace
}  // namespace quire::server
