#include "comm/rank_links.h"

#include <atomic>
#include <chrono>
#include <string>

#include "base/clock.h"
#include "comm/testing/linked_ranks.h"

namespace quire {
namespace {

using std::chrono::milliseconds;

// Waits for a byte that is never sent, until the connection ends.
Status wait_on(const Socket& socket) {
  std::byte byte{};
  return receive_all(socket, {&byte, 1}, deadline_in_ms(20'000));
}

TEST(RankLinks, WhoOnlyWaitsLivesAsLongAsItDoes) {
  test::on_all_ranks(3, {.deadline_ms = 200}, [&](Result<std::unique_ptr<RankLinks>> links) {
    ASSERT_TRUE(links.ok()) << links.status().message();
    std::this_thread::sleep_for(milliseconds(800));  // much longer than the deadline
    EXPECT_TRUE((*links)->status().ok()) << (*links)->status().message();
    if ((*links)->rank() == 0) return (*links)->end();
    EXPECT_FALSE(wait_on((*links)->control(0)).ok());
    EXPECT_TRUE((*links)->status().ok()) << (*links)->status().message();  // a goodbye is no loss
  });
}

TEST(RankLinks, ALossEndsEveryWait) {
  test::on_all_ranks(4, {}, [&](Result<std::unique_ptr<RankLinks>> links) {
    ASSERT_TRUE(links.ok()) << links.status().message();
    const int rank = (*links)->rank();
    if (rank == 2) return;  // its connections close without a goodbye
    const int64_t start_us = SteadyClock().now_us();
    // No rank waits for rank 2; only the first rank's watch finds the loss.
    const int other = rank == 0 ? 1 : 4 - rank;
    const Status waited = wait_on((*links)->data(other));
    EXPECT_FALSE(waited.ok());
    (*links)->break_at(other, waited.message());
    EXPECT_LT(SteadyClock().now_us() - start_us, 4'000'000);
    EXPECT_EQ((*links)->status().code(), StatusCode::kUnavailable);
    const std::string culprit = rank == 0 ? "rank 2 of 4" : "rank 0 of 4";  // who reported it
    EXPECT_NE((*links)->status().message().find(culprit), std::string::npos)
        << (*links)->status().message();
  });
}

// A stopped process still has open connections, and its system still receives what is sent to it.
TEST(RankWatch, SilenceIsALoss) {
  const auto listener = listen_on(0);
  ASSERT_TRUE(listener.ok());
  auto silent = connect_to("127.0.0.1", port_of(*listener), deadline_in_ms(5000));
  auto other = accept_one(*listener, deadline_in_ms(5000));
  ASSERT_TRUE(silent.ok() && other.ok());
  std::vector<RankWatch::Peer> peers;
  peers.push_back({.rank = 5, .socket = std::move(*other)});
  std::atomic<int64_t> lost_us{0};
  const int64_t start_us = SteadyClock().now_us();
  const auto watch =
      RankWatch::start(std::move(peers), 300, [&](int rank, const std::string& reason) {
        EXPECT_EQ(rank, 5);
        EXPECT_NE(reason.find("300 ms"), std::string::npos) << reason;
        lost_us = SteadyClock().now_us();
      });
  ASSERT_TRUE(watch.ok());
  while (lost_us == 0 && SteadyClock().now_us() - start_us < 5'000'000)
    std::this_thread::sleep_for(milliseconds(10));
  EXPECT_GE(lost_us - start_us, 300'000);
  EXPECT_LT(lost_us - start_us, 2'000'000);
}

TEST(RankLinks, RanksMustAgree) {
  test::on_all_ranks(
      2, {.agreement = "llama", .join_deadline_ms = 5000},
      [](const Result<std::unique_ptr<RankLinks>>& joined) {
        ASSERT_FALSE(joined.ok());
        EXPECT_EQ(joined.status().code(), StatusCode::kInvalidArgument);
        EXPECT_NE(joined.status().message().find("llama"), std::string::npos);
        EXPECT_NE(joined.status().message().find("qwen"), std::string::npos)
            << joined.status().message();
      },
      [](RankLinksOptions& options) {
        if (options.rank == 1) options.agreement = "qwen";
      });
}

TEST(RankLinks, StrangersAreNotAdmitted) {
  RankLinksOptions options{.size = 2, .port = test::free_port(), .join_deadline_ms = 10'000};
  std::thread first([&] {
    const auto joined = RankLinks::join(options);
    EXPECT_TRUE(joined.ok()) << joined.status().message();
  });
  auto stranger = connect_to("127.0.0.1", options.port, deadline_in_ms(5000));
  ASSERT_TRUE(stranger.ok());
  const std::string http = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
  ASSERT_TRUE(send_all(*stranger, std::as_bytes(std::span(http)), deadline_in_ms(1000)).ok());
  RankLinksOptions second = options;
  second.rank = 1;
  EXPECT_TRUE(RankLinks::join(second).ok());
  first.join();
}

// Ranks of another group may find this one's port while it joins.
TEST(RankLinks, RanksOfAnotherGroupAreRefused) {
  RankLinksOptions options{.size = 2, .port = test::free_port(), .join_deadline_ms = 10'000};
  std::thread first([&] {
    const auto joined = RankLinks::join(options);
    EXPECT_TRUE(joined.ok()) << joined.status().message();
  });
  RankLinksOptions stranger = options;
  stranger.rank = 2;
  stranger.size = 4;
  const Status refused = RankLinks::join(stranger).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("a group of 2, got rank 2 of 4"), std::string::npos)
      << refused.message();
  RankLinksOptions second = options;
  second.rank = 1;
  EXPECT_TRUE(RankLinks::join(second).ok());
  first.join();
}

TEST(RankLinks, SaysWhatWasRefused) {
  const RankLinksOptions options{.size = 2, .port = test::free_port(), .join_deadline_ms = 1000};
  Status status;
  std::thread first([&] { status = RankLinks::join(options).status(); });
  RankLinksOptions stranger = options;
  stranger.rank = 1;
  stranger.size = 3;
  stranger.join_deadline_ms = 10'000;
  EXPECT_FALSE(RankLinks::join(stranger).ok());
  first.join();
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(status.message().find("got rank 1 of 3"), std::string::npos) << status.message();
}

TEST(RankLinks, SaysWhatIsMissing) {
  const auto alone =
      RankLinks::join({.size = 3, .port = test::free_port(), .join_deadline_ms = 50});
  EXPECT_EQ(alone.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(alone.status().message().find("8 of 8"), std::string::npos) << alone.status().message();
  const auto nobody =
      RankLinks::join({.rank = 1, .size = 2, .port = test::free_port(), .join_deadline_ms = 50});
  EXPECT_EQ(nobody.status().code(), StatusCode::kUnavailable) << nobody.status().message();
  EXPECT_EQ(RankLinks::join({.rank = 2, .size = 2}).status().code(), StatusCode::kInvalidArgument);
}

TEST(Frames, WhatIsNoFrameIsRefused) {
  const auto listener = listen_on(0);
  ASSERT_TRUE(listener.ok());
  auto a = connect_to("127.0.0.1", port_of(*listener), deadline_in_ms(5000));
  auto b = accept_one(*listener, deadline_in_ms(5000));
  ASSERT_TRUE(a.ok() && b.ok());
  Frame frame;
  const std::string text = "some text";
  ASSERT_TRUE(send_frame(*a, 9, std::as_bytes(std::span(text)), deadline_in_ms(1000)).ok());
  ASSERT_TRUE(receive_frame(*b, frame, deadline_in_ms(1000)).ok());
  EXPECT_EQ(frame.kind, 9u);
  EXPECT_EQ(frame.payload.size(), text.size());
  const std::string noise(64, 'x');
  ASSERT_TRUE(send_all(*a, std::as_bytes(std::span(noise)), deadline_in_ms(1000)).ok());
  EXPECT_EQ(receive_frame(*b, frame, deadline_in_ms(1000)).code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace quire
