#include "engine/output/output_channel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace quire {
namespace {

OutputDelta delta(int32_t choice, std::string text, std::optional<FinishReason> reason = {}) {
  OutputDelta d;
  d.choice_index = choice;
  d.token_ids.assign(text.size(), 7);
  d.text = std::move(text);
  d.finish_reason = reason;
  return d;
}

TEST(OutputChannel, KeepsOrderAndEnds) {
  OutputChannel channel(2, {}, nullptr);
  EXPECT_FALSE(channel.try_pop().has_value());
  EXPECT_TRUE(channel.push(delta(0, "a")));
  EXPECT_TRUE(channel.push(delta(1, "b", FinishReason::kStop)));
  EXPECT_TRUE(channel.push(delta(0, "c", FinishReason::kLength)));
  EXPECT_FALSE(channel.all_pushed());
  EXPECT_FALSE(channel.try_pop().has_value()) << "nothing is seen before notify()";
  channel.notify();
  EXPECT_TRUE(channel.all_pushed());
  EXPECT_FALSE(channel.done());
  EXPECT_EQ(channel.pop()->text, "a");
  EXPECT_EQ(channel.pop()->text, "b");
  EXPECT_EQ(channel.pop()->text, "c");
  EXPECT_TRUE(channel.done());
  EXPECT_FALSE(channel.pop().has_value());
}

TEST(OutputChannel, AllStreamsTogetherAreBounded) {
  constexpr StreamLimits kLimits = {.max_total_unread_bytes = 100'000};
  const auto total = std::make_shared<std::atomic<int64_t>>(0);
  auto hog = std::make_unique<OutputChannel>(1, kLimits, nullptr, total);
  int32_t num_taken = 0;
  while (hog->push(delta(0, std::string(1000, 'a')))) ++num_taken;
  EXPECT_GT(num_taken, 10);
  EXPECT_LE(total->load(), 100'000);
  // A reader that reads, or has left little unread, is not affected.
  OutputChannel reader(1, kLimits, nullptr, total);
  EXPECT_TRUE(reader.push(delta(0, std::string(1000, 'a'))));
  EXPECT_TRUE(reader.push(delta(0, std::string(1000, 'a'))));
  reader.notify();
  while (reader.try_pop()) {
  }
  hog.reset();
  EXPECT_EQ(total->load(), 0);
}

TEST(OutputChannel, NothingFollowsAFinish) {
  OutputChannel channel(1, {}, nullptr);
  channel.push(delta(0, "a", FinishReason::kStop));
  channel.push(delta(0, "late", FinishReason::kAbort));
  channel.notify();
  EXPECT_EQ(channel.pop()->text, "a");
  EXPECT_FALSE(channel.pop().has_value());
}

TEST(OutputChannel, WhatIsMergedIntoAReadableDeltaWaitsForItsNotice) {
  OutputChannel channel(2, {.max_unread_deltas = 2, .max_unread_bytes = 1 << 20}, nullptr);
  channel.push(delta(0, "a"));
  channel.push(delta(1, "b"));
  channel.notify();
  channel.push(delta(1, "c", FinishReason::kStop));
  EXPECT_EQ(channel.try_pop()->text, "a");
  EXPECT_FALSE(channel.try_pop().has_value()) << "the end is not announced yet";
  channel.push(delta(0, "d", FinishReason::kStop));
  channel.notify();
  EXPECT_EQ(channel.pop()->text, "bc");
  EXPECT_EQ(channel.pop()->text, "d");
  EXPECT_TRUE(channel.done());
}

TEST(OutputChannel, UnreadDeltasMergePerChoice) {
  OutputChannel channel(2, {.max_unread_deltas = 2, .max_unread_bytes = 1 << 20}, nullptr);
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(channel.push(delta(0, "x")));
    EXPECT_TRUE(channel.push(delta(1, "y")));
  }
  EXPECT_TRUE(channel.push(delta(0, "", FinishReason::kLength)));
  channel.notify();
  const auto first = channel.try_pop();
  const auto second = channel.try_pop();
  EXPECT_FALSE(channel.try_pop().has_value());
  EXPECT_EQ(first->text, std::string(100, 'x'));
  EXPECT_EQ(first->token_ids.size(), 100u);
  EXPECT_EQ(first->finish_reason, FinishReason::kLength);
  EXPECT_EQ(second->text, std::string(100, 'y'));
  EXPECT_FALSE(second->finish_reason.has_value());
}

TEST(OutputChannel, OverflowsByBytesButNeverRefusesAFailure) {
  OutputChannel channel(1, {.max_unread_deltas = 4, .max_unread_bytes = 4096}, nullptr);
  EXPECT_TRUE(channel.push(delta(0, std::string(100000, 'x')))) << "one delta may always wait";
  EXPECT_FALSE(channel.push(delta(0, "y")));
  EXPECT_FALSE(channel.push(delta(0, "y", FinishReason::kStop)));
  EXPECT_TRUE(channel.push(delta(0, "", FinishReason::kAbort)));
  channel.notify();
  EXPECT_EQ(channel.pop()->text.size(), 100000u);
  EXPECT_EQ(channel.pop()->finish_reason, FinishReason::kAbort);
  EXPECT_TRUE(channel.done());
}

TEST(OutputChannel, RoomComesBackWithReading) {
  const int64_t room_bytes =
      size_bytes(delta(0, std::string(1000, 'x'))) + size_bytes(delta(0, std::string(500, 'x')));
  OutputChannel channel(1, {.max_unread_deltas = 4, .max_unread_bytes = room_bytes}, nullptr);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(channel.push(delta(0, std::string(1000, 'x')))) << i;
    ASSERT_TRUE(channel.push(delta(0, std::string(500, 'x')))) << i;
    channel.notify();
    while (channel.try_pop()) {
    }
  }
}

TEST(OutputChannel, ReaderThreadSeesEverything) {
  std::atomic<int> calls{0};
  OutputChannel channel(1, {.max_unread_deltas = 3, .max_unread_bytes = 1 << 30}, [&] { ++calls; });
  std::string text;
  std::thread reader([&] {
    while (auto d = channel.pop()) text += d->text;
  });
  std::string expected;
  for (int i = 0; i < 5000; ++i) {
    const std::string piece(1, static_cast<char>('a' + i % 26));
    expected += piece;
    ASSERT_TRUE(channel.push(delta(0, piece)));
    channel.notify();
  }
  channel.push(delta(0, "", FinishReason::kStop));
  channel.notify();
  reader.join();
  EXPECT_EQ(text, expected);
  EXPECT_EQ(calls.load(), 5001);
}

}  // namespace
}  // namespace quire
