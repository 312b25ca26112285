// The columns of a recurrence's state, in registers while a block walks the tokens of a chain. In a
// block of the pool the rows of a column are consecutive.
#pragma once

#include "kernels/cuda/states/chains.h"

namespace quire::cuda {

inline constexpr int kBlockColumns = 32;

// How threads divide columns: kLanes neighbouring lanes share kColumns neighbouring columns, and
// each lane has kRows rows of them (rows past the state's are zeros). A lane has every kLanes-th
// piece of four rows, so that memory is read in pieces of 16 bytes.
template <int kLanesOfColumn, int kRowsOfLane, int kColumnsOfLane>
struct ColumnForm {
  static constexpr int kLanes = kLanesOfColumn;
  static constexpr int kRows = kRowsOfLane;
  static constexpr int kColumns = kColumnsOfLane;
  static constexpr int kPaddedRows = kLanes * kRows;
  static constexpr int kThreads = kBlockColumns / kColumns * kLanes;
  static_assert(kRows % 4 == 0 && kLanes <= 32);
};

template <typename Form>
struct StateColumns {
  float at[Form::kColumns][Form::kRows];
};

// Returns the thread's first column in the block.
template <typename Form>
QUIRE_DEVICE int block_column() {
  return ptx::thread_index() / Form::kLanes * Form::kColumns;
}
// Returns the row at which the piece with the thread's rows 4 * piece to 4 * piece + 3 begins.
template <typename Form>
QUIRE_DEVICE int piece_row(int piece) {
  return 4 * (piece * Form::kLanes + ptx::thread_index() % Form::kLanes);
}

// Copies the thread's rows of a padded column in shared memory.
template <typename Form>
QUIRE_DEVICE void read_rows(const float* column, float (&to)[Form::kRows]) {
#pragma unroll
  for (int piece = 0; piece < Form::kRows / 4; ++piece) {
    float four[4];
    load(column + piece_row<Form>(piece), four);
#pragma unroll
    for (int i = 0; i < 4; ++i) to[4 * piece + i] = four[i];
  }
}

// Loads the thread's rows of a column with num_rows rows; a null `column` stands for zeros.
template <typename Form>
QUIRE_DEVICE void load_column(const float* column, int32_t num_rows, float (&to)[Form::kRows]) {
  const bool whole_pieces = reinterpret_cast<uintptr_t>(column) % 16 == 0 && num_rows % 4 == 0;
#pragma unroll
  for (int piece = 0; piece < Form::kRows / 4; ++piece) {
    const int row = piece_row<Form>(piece);
    float four[4] = {};
    if (column != nullptr && whole_pieces) {
      if (row < num_rows) load(column + row, four);
    } else if (column != nullptr) {
#pragma unroll
      for (int i = 0; i < 4; ++i) four[i] = row + i < num_rows ? column[row + i] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) to[4 * piece + i] = four[i];
  }
}
template <typename Form>
QUIRE_DEVICE void save_column(const float (&from)[Form::kRows], int32_t num_rows, float* column) {
  const bool whole_pieces = reinterpret_cast<uintptr_t>(column) % 16 == 0 && num_rows % 4 == 0;
#pragma unroll
  for (int piece = 0; piece < Form::kRows / 4; ++piece) {
    const int row = piece_row<Form>(piece);
    const float four[4] = {from[4 * piece], from[4 * piece + 1], from[4 * piece + 2],
                           from[4 * piece + 3]};
    if (whole_pieces) {
      if (row < num_rows) store(column + row, four);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (row + i < num_rows) column[row + i] = four[i];
    }
  }
}

// Returns the sum over the lanes of a column, with the same bits in each of them.
template <typename Form>
QUIRE_DEVICE float column_sum(float x) {
#pragma unroll
  for (int mask = Form::kLanes / 2; mask >= 1; mask /= 2)
    x = ptx::add(x, ptx::shuffle_xor(x, mask));
  return x;
}

// Adds up kSums values at once over the lanes that differ in bits up to kMask, each with the bits
// of column_sum(). As long as a lane has several values, it gives half of them to another lane and
// keeps the other half. In the end its values begin with the sum of value number `first`, to which
// the function adds that number.
template <int kSums, int kMask, int kSize>
QUIRE_DEVICE void fold_sums(float (&x)[kSize], int& first) {
  if constexpr (kMask > 0 && kSums > 1) {
    const bool upper = (ptx::thread_index() & kMask) != 0;
#pragma unroll
    for (int i = 0; i < kSums / 2; ++i) {
      const float kept = upper ? x[i + kSums / 2] : x[i];
      const float given = upper ? x[i] : x[i + kSums / 2];
      x[i] = ptx::add(kept, ptx::shuffle_xor(given, kMask));
    }
    first += upper ? kSums / 2 : 0;
    fold_sums<kSums / 2, kMask / 2>(x, first);
  } else if constexpr (kMask > 0) {
    x[0] = ptx::add(x[0], ptx::shuffle_xor(x[0], kMask));
    fold_sums<1, kMask / 2>(x, first);
  }
}

}  // namespace quire::cuda
