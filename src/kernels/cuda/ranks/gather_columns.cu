// gather_columns(): a rank stores its columns to the copies of the others, says so, and waits until
// they have said the same. Stores to another GPU need no answer, where loads would wait for one.
//
// Block b of a rank meets block b of the others, and no other block: so blocks may run in any order,
// and all of them have met when the kernel ends. Ranks that share a GPU (as in tests) need each
// other's kernels to run while they wait: hence few blocks, and the next kernel may begin only when
// this one has ended.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ranks/rank_ops.h"

#if defined(__CUDACC__)
#include "kernels/cuda/ranks/system_ptx.h"
#else
#include "kernels/cuda/emulation/system/system_ptx.h"
#endif

namespace quire::cuda {
namespace {

constexpr int kThreads = 256;
// So many looks at a signal come before one at the clock, and at memory of the host.
constexpr int kLooks = 1024;

template <typename Unit>
QUIRE_DEVICE void store_to_others(const GatherColumnsParams& p) {
  constexpr auto kUnitBytes = static_cast<int64_t>(sizeof(Unit));
  const int64_t per_row = (p.end_bytes - p.begin_bytes) / kUnitBytes;
  const int64_t step = int64_t{ptx::num_blocks()} * kThreads;
  for (int64_t i = int64_t{ptx::block_index()} * kThreads + ptx::thread_index();
       i < p.num_rows * per_row; i += step) {
    const int64_t at = i / per_row * p.row_stride_bytes + p.begin_bytes + i % per_row * kUnitBytes;
    const Unit unit = *reinterpret_cast<const Unit*>(p.matrices[p.rank] + at);
    for (int other = 0; other < p.num_ranks; ++other) {
      if (other != p.rank) *reinterpret_cast<Unit*>(p.matrices[other] + at) = unit;
    }
  }
}

// Whole rows that this rank has, to each other rank what it wants of them.
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
           i < p.wanted_end[other]; i += kThreads * kUnitBytes) {
        *reinterpret_cast<Unit*>(p.matrices[other] + at + i) =
            *reinterpret_cast<const Unit*>(p.matrices[p.rank] + at + i);
      }
    }
  }
}

QUIRE_DEVICE void wait_for(const GatherColumnsParams& p, int other, int block, uint32_t meeting) {
  const uint32_t* const arrivals = &p.signals[p.rank]->arrivals[other][block];
  const uint64_t begin_ns = ptx::clock_ns();
  for (int look = 1;; ++look) {
    if (static_cast<int32_t>(ptx::load_acquire_system(arrivals) - meeting) >= 0) return;
    ptx::pause();
    if (look % kLooks != 0) continue;
    if (ptx::load_acquire_system(p.missing) != 0) return;
    if (ptx::clock_ns() - begin_ns < static_cast<uint64_t>(p.deadline_us) * 1000) continue;
    ptx::store_release_system(p.missing, static_cast<uint32_t>(other) + 1);
    return;
  }
}

template <typename Unit>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, 1) gather_columns_kernel(const GatherColumnsParams p) {
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
  if (meets) wait_for(p, other, block, meeting);
}

}  // namespace

void gather_columns(Stream& stream, const GatherColumnsParams& p) {
  const LaunchShape shape{.num_blocks = p.num_blocks, .num_threads = kThreads};
  // The widest unit that every piece of a row is made of.
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
