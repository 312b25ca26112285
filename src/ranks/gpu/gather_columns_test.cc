// Ranks on GPUs gather matrices, from a queue or from graphs, and never wait forever.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <thread>

#include "exec/gpu/ranks/gpu_ranks.h"
#include "kernels/cuda/test/test_device.h"
#include "kernels/cuda/test/test_rank_ops.h"

namespace quire {
namespace {

using Bytes = std::vector<uint8_t>;

struct Shape {
  int64_t num_rows = 0;
  int64_t num_columns = 0;
  int64_t element_bytes = 0;
};

class GatherColumns : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto device = gpu_test::open_test_device();
    if (!device.ok()) GTEST_SKIP() << "SKIPPED: " << device.status().message();
  }

  void make(int num_ranks, int64_t memory_bytes, int64_t deadline_ms = 20'000) {
    groups_.clear();
    devices_.clear();
    staged_.clear();
    at_.clear();
    for (int rank = 0; rank < num_ranks; ++rank) {
      auto device = gpu_test::open_test_device();
      ASSERT_TRUE(device.ok()) << device.status().message();
      devices_.push_back(std::move(*device));
    }
    auto groups =
        GpuRanks::create(devices_, {.ops = &gpu_test::test_rank_ops(), .deadline_ms = deadline_ms});
    ASSERT_TRUE(groups.ok()) << groups.status().message();
    groups_ = std::move(*groups);
    on_all([&](size_t rank) { EXPECT_TRUE(groups_[rank]->allocate(memory_bytes).ok()); });
  }

  void on_all(const std::function<void(size_t rank)>& work) {
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < groups_.size(); ++rank) threads.emplace_back(work, rank);
    for (std::thread& thread : threads) thread.join();
  }

  // The first ranks have one column more. If there are fewer columns than ranks, the last ranks
  // have none.
  std::vector<ByteColumns> cut(const Shape& shape) const {
    const auto num_ranks = static_cast<int64_t>(groups_.size());
    std::vector<ByteColumns> columns;
    for (int64_t rank = 0; rank < num_ranks; ++rank) {
      const auto bound = [&](int64_t r) {
        return (shape.num_columns * r + num_ranks - 1) / num_ranks * shape.element_bytes;
      };
      columns.push_back({bound(rank), bound(rank + 1)});
    }
    return columns;
  }

  // Queues a copy of this rank's staged columns to `offset` of its memory, and a gather of them.
  void queue(size_t rank, const Shape& shape, int64_t offset) {
    const std::vector<ByteColumns> columns = cut(shape);
    const int64_t row_bytes = shape.num_columns * shape.element_bytes;
    std::byte* const to = groups_[rank]->memory().data() + offset;
    for (int64_t row = 0; row < shape.num_rows; ++row) {
      const int64_t at = row * row_bytes + columns[rank].begin;
      devices_[rank]->copy_on_device(to + at, at_[rank] + at, columns[rank].size());
    }
    EXPECT_TRUE(groups_[rank]->gather({.offset_bytes = offset,
                                       .row_stride_bytes = row_bytes,
                                       .num_rows = shape.num_rows,
                                       .columns = columns}));
  }

  // Copies `all` to every rank's device, before any of them waits for another.
  void stage(const Bytes& all) {
    const auto size = static_cast<int64_t>(all.size());
    for (const auto& device : devices_) {
      auto arena = device->allocate(size);
      ASSERT_TRUE(arena.ok()) << arena.status().message();
      at_.push_back(static_cast<std::byte*>(arena->allocate_bytes(size)));
      staged_.push_back(std::move(*arena));
      device->copy_to_device(at_.back(), all.data(), size);
      ASSERT_TRUE(device->synchronize().ok());
    }
  }

  Bytes read(size_t rank, int64_t offset, size_t size) {
    // A copy of unpinned memory may keep other threads from launching kernels that this one waits
    // for.
    EXPECT_TRUE(devices_[rank]->synchronize().ok());
    Bytes got(size);
    devices_[rank]->copy_to_host(got.data(), groups_[rank]->memory().data() + offset,
                                 static_cast<int64_t>(size));
    const Status status = devices_[rank]->synchronize();
    EXPECT_TRUE(status.ok()) << status.message();
    return got;
  }

  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<std::unique_ptr<GpuRanks>> groups_;
  std::vector<Arena> staged_;   // by rank
  std::vector<std::byte*> at_;  // where the staged matrix begins
};

Bytes counted(const Shape& shape) {
  Bytes bytes(static_cast<size_t>(shape.num_rows * shape.num_columns * shape.element_bytes));
  std::iota(bytes.begin(), bytes.end(), uint8_t{7});
  return bytes;
}

// One row and many; pieces of 16, 4 and 1 bytes; ranks without a column.
TEST_F(GatherColumns, BringsAllColumnsToAllRanks) {
  constexpr int64_t kOffset = 64;
  // With many streams, streams of one GPU may share a hardware queue.
  const bool is_emulated = (*gpu_test::open_test_device())->stream().emulated() != nullptr;
  for (const int num_ranks : {2, 3, is_emulated ? 8 : 4}) {
    for (const Shape& shape : {Shape{1, 4096, 4}, Shape{37, 64, 2}, Shape{5, 33, 4}, Shape{3, 5, 1},
                               Shape{130, 384, 4}, Shape{1, 2, 4}}) {
      SCOPED_TRACE(fmt::format("{} ranks, [{}, {}]", num_ranks, shape.num_rows, shape.num_columns));
      const Bytes want = counted(shape);
      make(num_ranks, kOffset + static_cast<int64_t>(want.size()));
      stage(want);
      std::vector<Bytes> got(groups_.size());
      on_all([&](size_t rank) {
        queue(rank, shape, kOffset);
        got[rank] = read(rank, kOffset, want.size());
      });
      for (const Bytes& bytes : got) EXPECT_EQ(bytes, want);
      EXPECT_TRUE(groups_.front()->status().ok());
    }
  }
}

// A gather keeps no counter on the host, so a graph can be launched again. Ranks that are ahead
// wait. A meeting without columns works too.
TEST_F(GatherColumns, RunsFromGraphs) {
  const Shape shape{3, 96, 4};
  const Bytes want = counted(shape);
  const auto size = static_cast<int64_t>(want.size());
  make(3, 2 * size);
  stage(want);
  on_all([&](size_t rank) {
    Device& device = *devices_[rank];
    ASSERT_TRUE(device.begin_capture().ok());
    queue(rank, shape, 0);
    EXPECT_TRUE(groups_[rank]->release());
    queue(rank, shape, size);
    auto graph = device.end_capture();
    ASSERT_TRUE(groups_[rank]->all(graph.ok()));
    for (int round = 0; round < 5; ++round) {
      device.set_zero(groups_[rank]->memory().data(), 2 * size);
      EXPECT_TRUE(groups_[rank]->release());
      (*graph)->launch();
      EXPECT_EQ(read(rank, 0, want.size()), want);
      EXPECT_EQ(read(rank, size, want.size()), want);
      EXPECT_TRUE(groups_[rank]->release());
    }
    ASSERT_TRUE(device.synchronize().ok());
  });
  EXPECT_TRUE(groups_.front()->status().ok());
}

TEST_F(GatherColumns, WholeRowsGoToAllRanks) {
  const Shape shape{7, 24, 4};
  const Bytes want = counted(shape);
  make(2, static_cast<int64_t>(want.size()));
  stage(want);
  const int64_t row_bytes = shape.num_columns * shape.element_bytes;
  const std::vector<MatrixRows> rows = {{0, 5}, {5, 7}};
  const std::vector<ByteColumns> columns = cut(shape);
  on_all([&](size_t rank) {
    const int64_t at = rows[rank].begin * row_bytes;
    devices_[rank]->copy_on_device(groups_[rank]->memory().data() + at, at_[rank] + at,
                                   rows[rank].size() * row_bytes);
    EXPECT_TRUE(groups_[rank]->all_to_all(
        {.row_stride_bytes = row_bytes, .rows = rows, .columns = columns}));
    EXPECT_EQ(read(rank, 0, want.size()), want);
  });
}

// Only the device knows which rank has a row; every rank gets the columns that it wants of all
// rows.
TEST_F(GatherColumns, RowsComeByTheirNumbers) {
  constexpr int64_t kRows = 90, kRowBytes = 192;
  const Bytes want = counted({kRows, kRowBytes, 1});
  std::vector<int32_t> numbers;
  for (int32_t row = 0; row < kRows; ++row) numbers.push_back(row * 7 % 10);
  const std::vector<MatrixRows> rows = {{0, 3}, {3, 9}, {9, 10}};
  for (const std::vector<ByteColumns>& columns :
       {std::vector<ByteColumns>{{0, 64}, {64, 76}, {76, kRowBytes}},
        std::vector<ByteColumns>(3, {0, kRowBytes})}) {
    make(3, Arena::padded(kRows * kRowBytes) + kRows * 4);
    stage(want);
    on_all([&](size_t rank) {
      std::byte* const memory = groups_[rank]->memory().data();
      auto* const on_device = reinterpret_cast<int32_t*>(memory + Arena::padded(kRows * kRowBytes));
      devices_[rank]->copy_to_device(on_device, numbers.data(), kRows * 4);
      Bytes expected(want.size());
      for (int64_t row = 0; row < kRows; ++row) {
        const int32_t number = numbers[static_cast<size_t>(row)];
        const bool is_own = number >= rows[rank].begin && number < rows[rank].end;
        const ByteColumns there = is_own ? ByteColumns{0, kRowBytes} : columns[rank];
        const int64_t at = row * kRowBytes + there.begin;
        std::copy_n(want.begin() + at, there.size(), expected.begin() + at);
        if (is_own) devices_[rank]->copy_on_device(memory + at, at_[rank] + at, kRowBytes);
      }
      EXPECT_TRUE(groups_[rank]->all_to_all({.row_stride_bytes = kRowBytes,
                                             .rows = rows,
                                             .columns = columns,
                                             .row_numbers = on_device,
                                             .num_rows = kRows}));
      EXPECT_EQ(read(rank, 0, want.size()), expected) << rank;
    });
  }
}

TEST_F(GatherColumns, EndsWhereARankDoesNotCome) {
  make(2, 64, 100);
  EXPECT_TRUE(groups_[0]->release());
  EXPECT_TRUE(devices_[0]->synchronize().ok());
  const Status status = groups_[0]->status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "rank 1 of 2 is gone, or its GPU did not come within 100 ms");
  EXPECT_FALSE(groups_[1]->release());  // nothing more is queued
}

// Neither GPUs nor threads wait any longer for a rank that has left.
TEST_F(GatherColumns, EndsWhereARankLeaves) {
  make(2, 64, 600'000);
  on_all([&](size_t rank) {
    if (rank == 1) return groups_[1]->leave();
    (void)groups_[0]->release();
    EXPECT_TRUE(devices_[0]->synchronize().ok());
    EXPECT_FALSE(groups_[0]->all(true));
  });
  EXPECT_EQ(groups_[0]->status().code(), StatusCode::kUnavailable);
}

TEST_F(GatherColumns, RefusesMoreRanksThanItsKernelTakes) {
  std::vector<std::unique_ptr<Device>> devices;
  for (int i = 0; i <= kMaxGatherRanks; ++i) devices.push_back(*gpu_test::open_test_device());
  const auto groups = GpuRanks::create(devices, {.ops = &gpu_test::test_rank_ops()});
  EXPECT_EQ(groups.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(groups.status().message().find("1 to 8 GPUs, got 9"), std::string::npos);
}

}  // namespace
}  // namespace quire
