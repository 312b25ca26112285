#include "server/http/socket/deadline.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <thread>

namespace quire::server {
namespace {

using std::chrono::milliseconds;

// A timer fires after its deadline has moved, and the deadline is cancelled before the timer's
// handler runs. Then no other timer may begin, because a server that stops would wait for it.
TEST(Deadline, CancelledBehindATimerThatHasFiredHoldsNobodyUp) {
  for (int hops = 0; hops < 8; ++hops) {
    SCOPED_TRACE(hops);
    boost::asio::io_context io;
    Deadline deadline(io.get_executor(), [] { ADD_FAILURE() << "the deadline has not passed"; });
    deadline.set(1, nullptr);
    deadline.set(60'000, nullptr);
    std::function<void(int)> hop = [&](int left) {
      std::this_thread::sleep_for(milliseconds(2));
      if (left == 0) return deadline.cancel();
      boost::asio::post(io, [&hop, left] { hop(left - 1); });
    };
    for (int i = 0; i < 3; ++i) boost::asio::post(io, [&hop, hops] { hop(hops); });
    io.run_for(milliseconds(2000));
    EXPECT_TRUE(io.stopped());
  }
}

TEST(Deadline, MovesWithoutATimerOfItsOwn) {
  boost::asio::io_context io;
  int num_passed = 0;
  Deadline deadline(io.get_executor(), [&] { ++num_passed; });
  deadline.set(1, nullptr);
  deadline.set(30, nullptr);
  const auto begin = Deadline::Clock::now();
  io.run();
  EXPECT_EQ(num_passed, 1);
  EXPECT_GE(Deadline::Clock::now() - begin, milliseconds(30));
}

}  // namespace
}  // namespace quire::server
