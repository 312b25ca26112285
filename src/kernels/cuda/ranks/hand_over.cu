// send_rows() and receive_rows(): block b of a stage stores its part of the rows to the inbox of
// the next stage and signals that; block b of the next stage waits for the signal and takes the
// part out. Stores over NVLink need no reply, and blocks meet only blocks of the same number, so
// they may run in any order.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ranks/rank_ops.h"
#include "kernels/cuda/ranks/signals.h"

namespace quire::cuda {
namespace {

// Block b copies the same part on both sides.
template <typename Unit>
QUIRE_DEVICE void copy_part(const std::byte* from, std::byte* to, int64_t num_bytes) {
  const int64_t count = num_bytes / static_cast<int64_t>(sizeof(Unit));
  const int64_t step = int64_t{ptx::num_blocks()} * kSignalThreads;
  for (int64_t i = int64_t{ptx::block_index()} * kSignalThreads + ptx::thread_index(); i < count;
       i += step) {
    reinterpret_cast<Unit*>(to)[i] = reinterpret_cast<const Unit*>(from)[i];
  }
}

template <typename Unit>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kSignalThreads, 1) send_rows_kernel(const SendRowsParams p) {
  ptx::wait_for_previous_kernel();
  copy_part<Unit>(p.rows, p.inbox, p.num_bytes);
  ptx::sync_threads();
  if (ptx::thread_index() == 0)
    ptx::store_release_system(&p.signals->arrivals[ptx::block_index()], p.number);
}

// Returns how many of the stages before have begun the step.
QUIRE_DEVICE int count_begun(const ReceiveRowsParams& p) {
  int num_begun = 0;
  for (int stage = 0; stage < p.stage; ++stage)
    num_begun += has_come_to(&p.signals->begun[stage], p.number) ? 1 : 0;
  return num_begun;
}

template <typename Unit>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kSignalThreads, 1) receive_rows_kernel(const ReceiveRowsParams p) {
  ptx::wait_for_previous_kernel();
  if (ptx::thread_index() == 0) {
    const bool has_come =
        p.stage == 0 || wait_for_signal({.signal = &p.signals->arrivals[ptx::block_index()],
                                         .number = p.number,
                                         .missing = p.missing,
                                         .deadline_us = p.deadline_us},
                                        [&] { return count_begun(p); });
    for (int i = 0; ptx::block_index() == 0 && has_come && i < p.num_later; ++i)
      ptx::store_release_system(&p.later[i]->begun[p.stage], p.number);
  }
  ptx::sync_threads();
  if (p.stage > 0) copy_part<Unit>(p.inbox, p.rows, p.num_bytes);
}

bool has_wide_units(const void* from, const void* to, int64_t num_bytes) {
  return (reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to) |
          static_cast<uint64_t>(num_bytes)) %
             16 ==
         0;
}

}  // namespace

void send_rows(Stream& stream, const SendRowsParams& p) {
  const LaunchShape shape{.num_blocks = p.num_blocks, .num_threads = kSignalThreads};
  if (has_wide_units(p.rows, p.inbox, p.num_bytes)) {
    launch<send_rows_kernel<Elements<4, uint32_t>>>(stream, shape, p);
  } else {
    launch<send_rows_kernel<uint32_t>>(stream, shape, p);
  }
}

void receive_rows(Stream& stream, const ReceiveRowsParams& p) {
  const LaunchShape shape{.num_blocks = p.num_blocks, .num_threads = kSignalThreads};
  if (has_wide_units(p.inbox, p.rows, p.num_bytes)) {
    launch<receive_rows_kernel<Elements<4, uint32_t>>>(stream, shape, p);
  } else {
    launch<receive_rows_kernel<uint32_t>>(stream, shape, p);
  }
}

}  // namespace quire::cuda
