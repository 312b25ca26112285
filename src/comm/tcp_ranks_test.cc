#include "comm/tcp_ranks.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>

#include "comm/testing/linked_ranks.h"

namespace quire {
namespace {

void on_all(int size, const RankLinksOptions& options,
            const std::function<void(TcpRanks& ranks, RankLinks& links)>& work) {
  test::on_all_ranks(size, options, [&](Result<std::unique_ptr<RankLinks>> links) {
    ASSERT_TRUE(links.ok()) << links.status().message();
    TcpRanks ranks(**links, 0, size);
    work(ranks, **links);
  });
}

// Random matrices with random cuts: every rank reads what the owners of the columns wrote.
TEST(TcpRanks, GathersColumns) {
  for (const int size : {1, 2, 3, 5}) {
    on_all(size, {}, [&](TcpRanks& ranks, RankLinks& links) {
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
      test::part_in_peace(links);
    });
  }
}

// Cuts [0, size) into a range for each rank, some of them empty.
std::vector<int64_t> random_cuts(std::mt19937& random, int64_t size, int num_ranks) {
  std::vector<int64_t> cuts = {0};
  for (int rank = 1; rank < num_ranks; ++rank)
    cuts.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(size + 1)));
  cuts.push_back(size);
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

// Every rank reads its columns of the rows that others wrote, and nothing else of its memory
// changes.
TEST(TcpRanks, AllToAllBringsColumnsOfAllRows) {
  for (const int size : {1, 2, 3, 5}) {
    on_all(size, {}, [&](TcpRanks& ranks, RankLinks& links) {
      ASSERT_TRUE(ranks.allocate(1 << 20).ok());
      std::mt19937 random(8);  // the same on every rank
      for (int round = 0; round < 60; ++round) {
        const auto num_rows = static_cast<int64_t>(random() % 60);
        const auto stride = 1 + static_cast<int64_t>(random() % 3000);
        const auto row_cuts = random_cuts(random, num_rows, size);
        const auto column_cuts = random_cuts(random, stride, size);
        std::vector<MatrixRows> rows;
        std::vector<ByteColumns> columns;
        for (size_t rank = 0; rank < static_cast<size_t>(size); ++rank) {
          rows.push_back({row_cuts[rank], row_cuts[rank + 1]});
          columns.push_back({column_cuts[rank], column_cuts[rank + 1]});
        }
        const auto mine = static_cast<size_t>(ranks.rank());
        const auto is_own_row = [&](int64_t row) {
          return row >= rows[mine].begin && row < rows[mine].end;
        };
        const auto is_own_column = [&](int64_t column) {
          return column >= columns[mine].begin && column < columns[mine].end;
        };
        const auto value = [&](int64_t row, int64_t column) {
          return static_cast<std::byte>((row * 31 + column * 7 + round) & 0xff);
        };
        constexpr std::byte kUntouched{0xee};
        std::byte* at = ranks.memory().data() + 64;
        for (int64_t i = 0; i < num_rows * stride; ++i)
          at[i] = is_own_row(i / stride) ? value(i / stride, i % stride) : kUntouched;
        ASSERT_TRUE(ranks.all_to_all(
            {.offset_bytes = 64, .row_stride_bytes = stride, .rows = rows, .columns = columns}))
            << ranks.status().message();
        for (int64_t i = 0; i < num_rows * stride; ++i) {
          const int64_t row = i / stride, column = i % stride;
          const bool is_there = is_own_row(row) || is_own_column(column);
          ASSERT_EQ(at[i], is_there ? value(row, column) : kUntouched) << round;
        }
      }
      test::part_in_peace(links);
    });
  }
}

TEST(TcpRanks, ARankThatIsGoneBreaksTheGroup) {
  const std::vector<ByteColumns> columns = {{0, 8}, {8, 16}, {16, 24}};
  on_all(3, {.deadline_ms = 60'000}, [&](TcpRanks& ranks, RankLinks&) {
    ASSERT_TRUE(ranks.allocate(4096).ok());
    const GatheredMatrix matrix{.row_stride_bytes = 24, .num_rows = 3, .columns = columns};
    ASSERT_TRUE(ranks.gather(matrix));
    if (ranks.rank() == 2) return;  // its connections close
    EXPECT_FALSE(ranks.gather(matrix));
    EXPECT_EQ(ranks.status().code(), StatusCode::kUnavailable);
    EXPECT_FALSE(ranks.gather(matrix));
    EXPECT_FALSE(ranks.all_to_all({}));
  });
}

TEST(TcpRanks, ARankThatDoesNotComeToAnAllToAllBreaksTheGroup) {
  const std::vector<ByteColumns> columns = {{0, 8}, {8, 16}};
  const std::vector<MatrixRows> rows = {{0, 1}, {1, 2}};
  on_all(2, {.deadline_ms = 200}, [&](TcpRanks& ranks, RankLinks&) {
    ASSERT_TRUE(ranks.allocate(4096).ok());
    if (ranks.rank() == 1) return std::this_thread::sleep_for(std::chrono::seconds(2));
    EXPECT_FALSE(ranks.all_to_all({.row_stride_bytes = 16, .rows = rows, .columns = columns}));
    EXPECT_EQ(ranks.status().code(), StatusCode::kUnavailable);
  });
}

TEST(TcpRanks, ARankThatIsSilentBreaksTheGroup) {
  const std::vector<ByteColumns> columns = {{0, 8}, {8, 16}};
  on_all(2, {.deadline_ms = 200}, [&](TcpRanks& ranks, RankLinks&) {
    ASSERT_TRUE(ranks.allocate(4096).ok());
    if (ranks.rank() == 1) return std::this_thread::sleep_for(std::chrono::seconds(2));
    EXPECT_FALSE(ranks.gather({.row_stride_bytes = 16, .num_rows = 1, .columns = columns}));
    EXPECT_NE(ranks.status().message().find("rank 1 of 2"), std::string::npos)
        << ranks.status().message();
  });
}

// Two groups on the same links, as with stages.
TEST(TcpRanks, GroupsKnowNothingOfEachOther) {
  const std::vector<ByteColumns> columns = {{0, 8}, {8, 16}};
  test::on_all_ranks(4, {}, [&](Result<std::unique_ptr<RankLinks>> links) {
    ASSERT_TRUE(links.ok()) << links.status().message();
    const int first = (*links)->rank() / 2 * 2;
    TcpRanks ranks(**links, first, 2);
    ASSERT_EQ(ranks.rank(), (*links)->rank() - first);
    ASSERT_TRUE(ranks.allocate(4096).ok());
    for (int round = 0; round < (first == 0 ? 3 : 50); ++round) {
      std::byte* const at = ranks.memory().data();
      std::memset(at + 8 * ranks.rank(), (*links)->rank() + round, 8);
      ASSERT_TRUE(ranks.gather({.row_stride_bytes = 16, .num_rows = 1, .columns = columns}));
      for (int i = 0; i < 16; ++i) ASSERT_EQ(at[i], static_cast<std::byte>(first + i / 8 + round));
    }
    test::part_in_peace(**links);
  });
}

}  // namespace
}  // namespace quire
