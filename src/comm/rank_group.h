// A group of ranks that compute one model together. Each rank fills some columns of a matrix, and
// the group makes all columns readable for every rank. Nothing is summed here, so no order of
// summation can change a bit (docs/decisions/035-ranks.md).
//
//   write_own_columns(ranks.memory());
//   if (!ranks.gather({.offset_bytes = 0, .row_stride_bytes = …, .columns = by_rank})) return ranks.status();
//   read_all_columns(ranks.memory());
//
//   write_own_rows(ranks.memory());
//   if (!ranks.all_to_all({.row_stride_bytes = …, .rows = by_rank, .columns = by_rank})) return ranks.status();
//   read_own_columns(ranks.memory());
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace quire {

// Bytes [begin, end) of each row.
struct ByteColumns {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

// Rows [begin, end) of a matrix.
struct MatrixRows {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

// A matrix in the memory of the group. Each rank has written some rows completely, and needs some
// columns of all rows.
struct ExchangedMatrix {
  int64_t offset_bytes = 0;  // of the first row
  int64_t row_stride_bytes = 0;
  std::span<const MatrixRows> rows = {};      // by rank: the rows that it has
  std::span<const ByteColumns> columns = {};  // by rank: the columns that it needs
  // On GPUs the host does not know which rank has which row. There, each of the num_rows rows has a
  // number here, and a rank has the rows whose numbers are among its `rows`.
  const int32_t* row_numbers = nullptr;
  int64_t num_rows = 0;
};

// A matrix in the memory of the group.
struct GatheredMatrix {
  int64_t offset_bytes = 0;  // of the first row
  int64_t row_stride_bytes = 0;
  int64_t num_rows = 0;
  std::span<const ByteColumns> columns = {};  // by rank
  bool first_only = false;                    // only the first rank reads the columns of others
};

// One rank's seat in the group. One thread uses it, but any thread may call leave(). All ranks call
// the same methods in the same order.
class RankGroup {
 public:
  static constexpr int kMaxRanks = 64;

  virtual ~RankGroup() = default;
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Returns the memory that holds the matrices, which is 64-byte aligned. Ranks of one process, or
  // of one machine, may share it.
  virtual std::span<std::byte> memory() const = 0;

  // A rank calls this when it has written its own columns. Returns true when the rank may read all
  // columns, and false, in this and every later call, when the group is broken.
  virtual bool gather(const GatheredMatrix& matrix) = 0;
  // A rank calls this when it has written its own rows. Returns true when it may read its own
  // columns of all rows, and false as gather() does. To each other rank it sends only that rank's
  // columns of its own rows.
  virtual bool all_to_all(const ExchangedMatrix& matrix) = 0;
  // Returns true when no rank reads the gathered matrices any more, and false as gather() does.
  virtual bool release() = 0;
  // Breaks the group, so that no rank waits any longer.
  virtual void leave() = 0;
  // Returns kUnavailable with the rank that was missing, once the group is broken.
  virtual Status status() const = 0;

 protected:
  RankGroup(int rank, int size) : rank_(rank), size_(size) {}

 private:
  int rank_;
  int size_;
};

}  // namespace quire
