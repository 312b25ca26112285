#include "comm/tcp_ranks.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <random>
#include <thread>

namespace quire {
namespace {

// A port that was free a moment ago.
uint16_t free_port() {
  const auto listener = listen_on(0);
  EXPECT_TRUE(listener.ok());
  return port_of(*listener);
}

using Work = std::function<void(Result<std::unique_ptr<TcpRanks>>)>;

void on_all(int size, TcpRanksOptions options, const Work& work,
            const std::function<void(TcpRanksOptions&)>& change = {}) {
  options.size = size;
  options.port = free_port();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    options.rank = rank;
    TcpRanksOptions own = options;
    if (change) change(own);
    threads.emplace_back([&work, own] { work(TcpRanks::join(own)); });
  }
  for (std::thread& thread : threads) thread.join();
}

// Random matrices of random cuts: what every rank reads is what the owners wrote.
TEST(TcpRanks, GathersColumns) {
  for (const int size : {1, 2, 3, 5}) {
    on_all(size, {}, [&](Result<std::unique_ptr<TcpRanks>> joined) {
      ASSERT_TRUE(joined.ok()) << joined.status().message();
      TcpRanks& ranks = **joined;
      ASSERT_TRUE(ranks.allocate(1 << 20).ok());
      std::mt19937 random(7);  // the same on every rank
      for (int round = 0; round < 60; ++round) {
        const int64_t rows = random() % 40, stride = 16 + random() % 4000;
        std::vector<ByteColumns> columns;
        int64_t begin = 0;
        for (int rank = 0; rank < size; ++rank) {
          const int64_t end = rank + 1 == size
                                  ? stride
                                  : begin + static_cast<int64_t>(random()) % (stride - begin + 1);
          columns.push_back({begin, end});
          begin = end;
        }
        const bool first_only = random() % 4 == 0;
        const auto value = [&](int64_t row, int64_t column) {
          return static_cast<std::byte>((row * 31 + column * 7 + round) & 0xff);
        };
        std::byte* at = ranks.memory().data() + 64;
        std::memset(at, 0, static_cast<size_t>(rows * stride));
        const ByteColumns mine = columns[static_cast<size_t>(ranks.rank())];
        for (int64_t row = 0; row < rows; ++row)
          for (int64_t column = mine.begin; column < mine.end; ++column)
            at[row * stride + column] = value(row, column);
        ASSERT_TRUE(ranks.gather({.offset_bytes = 64,
                                  .row_stride_bytes = stride,
                                  .num_rows = rows,
                                  .columns = columns,
                                  .first_only = first_only}))
            << ranks.status().message();
        if (first_only && ranks.rank() > 0) continue;
        for (int64_t i = 0; i < rows * stride; ++i)
          ASSERT_EQ(at[i], value(i / stride, i % stride)) << round;
      }
    });
  }
}

TEST(TcpRanks, ARankThatIsGoneBreaksTheGroup) {
  const std::vector<ByteColumns> columns = {{0, 8}, {8, 16}, {16, 24}};
  on_all(3, {.deadline_ms = 60'000}, [&](Result<std::unique_ptr<TcpRanks>> joined) {
    ASSERT_TRUE(joined.ok()) << joined.status().message();
    TcpRanks& ranks = **joined;
    ASSERT_TRUE(ranks.allocate(4096).ok());
    const GatheredMatrix matrix{.row_stride_bytes = 24, .num_rows = 3, .columns = columns};
    ASSERT_TRUE(ranks.gather(matrix));
    if (ranks.rank() == 2) return;  // its connections close
    EXPECT_FALSE(ranks.gather(matrix));
    EXPECT_EQ(ranks.status().code(), StatusCode::kUnavailable);
    EXPECT_FALSE(ranks.gather(matrix));
  });
}

TEST(TcpRanks, ARankThatIsSilentBreaksTheGroup) {
  const std::vector<ByteColumns> columns = {{0, 8}, {8, 16}};
  on_all(2, {.deadline_ms = 200}, [&](Result<std::unique_ptr<TcpRanks>> joined) {
    ASSERT_TRUE(joined.ok()) << joined.status().message();
    TcpRanks& ranks = **joined;
    ASSERT_TRUE(ranks.allocate(4096).ok());
    if (ranks.rank() == 1) return std::this_thread::sleep_for(std::chrono::seconds(2));
    EXPECT_FALSE(ranks.gather({.row_stride_bytes = 16, .num_rows = 1, .columns = columns}));
    EXPECT_NE(ranks.status().message().find("rank 1 of 2"), std::string::npos)
        << ranks.status().message();
  });
}

TEST(TcpRanks, RanksMustAgree) {
  on_all(
      2, {.agreement = "llama", .join_deadline_ms = 5000},
      [](const Result<std::unique_ptr<TcpRanks>>& joined) {
        ASSERT_FALSE(joined.ok());
        EXPECT_EQ(joined.status().code(), StatusCode::kInvalidArgument);
        EXPECT_NE(joined.status().message().find("llama"), std::string::npos);
        EXPECT_NE(joined.status().message().find("qwen"), std::string::npos)
            << joined.status().message();
      },
      [](TcpRanksOptions& options) {
        if (options.rank == 1) options.agreement = "qwen";
      });
}

TEST(TcpRanks, StrangersAreNotAdmitted) {
  TcpRanksOptions options{.size = 2, .port = free_port(), .join_deadline_ms = 10'000};
  std::thread first([&] {
    const auto joined = TcpRanks::join(options);
    EXPECT_TRUE(joined.ok()) << joined.status().message();
  });
  auto stranger = connect_to("127.0.0.1", options.port, deadline_in_ms(5000));
  ASSERT_TRUE(stranger.ok());
  const std::string http = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
  ASSERT_TRUE(send_all(*stranger, std::as_bytes(std::span(http)), deadline_in_ms(1000)).ok());
  TcpRanksOptions second = options;
  second.rank = 1;
  EXPECT_TRUE(TcpRanks::join(second).ok());
  first.join();
}

TEST(TcpRanks, SaysWhatIsMissing) {
  const auto alone = TcpRanks::join({.size = 3, .port = free_port(), .join_deadline_ms = 50});
  EXPECT_EQ(alone.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(alone.status().message().find("4 of 4"), std::string::npos) << alone.status().message();
  const auto nobody =
      TcpRanks::join({.rank = 1, .size = 2, .port = free_port(), .join_deadline_ms = 50});
  EXPECT_EQ(nobody.status().code(), StatusCode::kUnavailable) << nobody.status().message();
  EXPECT_EQ(TcpRanks::join({.rank = 2, .size = 2}).status().code(), StatusCode::kInvalidArgument);
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
