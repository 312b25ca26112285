// gather_columns(): a rank stores its columns to the copies of the other ranks, signals that to
// them, and waits for their signals. Stores to another GPU need no reply, while loads would wait
// for one.
//
// Block b of a rank meets block b of the other ranks and no other block. So blocks may run in any
// order, and all of them have met when the kernel ends. Ranks that share a GPU (as in tests) need
// each other's kernels to run while they wait; so there are few blocks, and the next kernel may
// begin only when this one has ended.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ranks/rank_ops.h"
#include "kernels/cuda/ranks/signals.h"

namespace quire::cuda {
namespace {

template <typename Unit>
QUIRE_DEVICE void store_to_others(const GatherColumnsParams& p) {
  constexpr auto kUnitBytes = static_cast<int64_t>(sizeof(Unit));
  const int64_t per_row = (p.end_bytes - p.begin_bytes) / kUnitBytes;
  const int64_t step = int64_t{ptx::num_blocks()} * kSignalThreads;
  for (int64_t i = int64_t{ptx::block_index()} * kSignalThreads + ptx::thread_index();
       i < p.num_rows * per_row; i += step) {
    const int64_t at = i / per_row * p.row_stride_bytes + p.begin_bytes + i % per_row * kUnitBytes;
    const Unit unit = *reinterpret_cast<const Unit*>(p.matrices[p.rank] + at);
    for (int other = 0; other < p.num_ranks; ++other) {
      if (other != p.rank) *reinterpret_cast<Unit*>(p.matrices[other] + at) = unit;
    }
  }
}

// Stores, of each row that this rank has, the bytes that each other rank wants.
template <typename Unit>
QUIRE_DEVICE void store_rows_to_others(const GatherColumnsParams& p) {
  constexpr auto kUnitBytes = static_cast<int64_t>(sizeof(Unit));
  for (int64_t row = ptx::block_index(); row < p.num_rows; row += ptx::num_blocks()) {
    const int32_t number = p.row_numbers[row];
    if (number < p.first_number || number >= p.end_number) continue;
    const int64_t at = row * p.row_stride_bytes;
    for (int other = 0; other < p.num_ranks; ++other) {
      if (other == p.rank) continue;
      for (int64_t i = p.wanted_begin[other] + ptx::thread_index() * kUnitBytes;
           i < p.wanted_end[other]; i += kSignalThreads * kUnitBytes) {
        *reinterpret_cast<Unit*>(p.matrices[other] + at + i) =
            *reinterpret_cast<const Unit*>(p.matrices[p.rank] + at + i);
      }
    }
  }
}

template <typename Unit>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kSignalThreads, 1)
    gather_columns_kernel(const GatherColumnsParams p) {
  ptx::wait_for_previous_kernel();
  if (p.row_numbers != nullptr) {
    store_rows_to_others<Unit>(p);
  } else {
    store_to_others<Unit>(p);
  }
  const int block = ptx::block_index();
  const int other = ptx::thread_index();
  const bool meets = other < p.num_ranks && other != p.rank;
  uint32_t* const num_meetings = &p.signals[p.rank]->num_meetings[block];
  const uint32_t meeting = *num_meetings + 1;
  ptx::sync_threads();
  if (meets) ptx::store_release_system(&p.signals[other]->arrivals[p.rank][block], meeting);
  if (ptx::thread_index() == 0) *num_meetings = meeting;
  ptx::sync_threads();
  if (!meets) return;
  wait_for_signal({.signal = &p.signals[p.rank]->arrivals[other][block],
                   .number = meeting,
                   .missing = p.missing,
                   .deadline_us = p.deadline_us},
                  [&] { return other + 1; });
}

}  // namespace

void gather_columns(Stream& stream, const GatherColumnsParams& p) {
  const LaunchShape shape{.num_blocks = p.num_blocks, .num_threads = kSignalThreads};
  // Uses the widest unit that divides every piece of a row.
  auto addresses = static_cast<uint64_t>(p.row_stride_bytes | p.begin_bytes | p.end_bytes) |
                   reinterpret_cast<uintptr_t>(p.matrices[p.rank]);
  for (int rank = 0; rank < p.num_ranks; ++rank)
    addresses |= static_cast<uint64_t>(p.wanted_begin[rank] | p.wanted_end[rank]);
  if (addresses % 16 == 0) {
    launch<gather_columns_kernel<Elements<4, uint32_t>>>(stream, shape, p);
  } else if (addresses % 4 == 0) {
    launch<gather_columns_kernel<uint32_t>>(stream, shape, p);
  } else {
    launch<gather_columns_kernel<uint8_t>>(stream, shape, p);
  }
}

}  // namespace quire::cuda
