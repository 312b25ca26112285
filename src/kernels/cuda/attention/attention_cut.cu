// The kernel cuts a batch into attention items on the GPU, so that a captured graph needs no host
// numbers.
#include "kernels/cuda/attention/attention_kernels.h"
#include "kernels/cuda/launch.h"

namespace quire::cuda {
namespace {

constexpr int kThreads = 256;

// Returns inclusive prefix sums over the block; `scratch` has 32 ints.
QUIRE_DEVICE int32_t block_scan(int32_t x, int32_t* scratch) {
  const int warp = ptx::thread_index() / 32;
  const int lane = ptx::thread_index() % 32;
  for (int delta = 1; delta < 32; delta *= 2) {
    const int32_t below = ptx::shuffle_up(x, delta);
    if (lane >= delta) x += below;
  }
  ptx::sync_threads();
  if (lane == 31) scratch[warp] = x;
  ptx::sync_threads();
  for (int w = 0; w < warp; ++w) x += scratch[w];
  return x;
}

// One block cuts the batch. A request decodes while the partial sums of all that may decode up to
// it fit into the workspace; the others go to prefill, which needs none.
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, 1) cut_kernel(const AttentionArgs args) {
  ptx::wait_for_previous_kernel();
  auto* scratch = reinterpret_cast<int32_t*>(ptx::shared_memory());
  auto* carried = scratch + 32;  // totals of the requests before this round
  const int thread = ptx::thread_index();
  const CutLists& lists = args.lists;
  if (thread < 3) carried[thread] = 0;
  if (thread == 0) lists.decode_items[0] = lists.prefill_items[0] = lists.partial_rows[0] = 0;
  ptx::sync_threads();
  for (int32_t first = 0; first < args.num_reqs; first += kThreads) {
    const int32_t r = first + thread;
    const bool inside = r < args.num_reqs;
    const RequestCut cut =
        inside ? cut_request(args.cut, args.query_start_loc[r + 1] - args.query_start_loc[r],
                             args.seq_lens[r])
               : RequestCut{};
    const int32_t rows_before[3] = {carried[0], carried[1], carried[2]};
    // Requests that cannot fit alone are left out, so that the sums stay far below 2^31.
    const bool fits_alone =
        cut.may_decode && int64_t{cut.rows} * cut.num_splits <= args.cut.max_partial_rows;
    const int32_t partial_end =
        rows_before[0] + block_scan(fits_alone ? cut.partial_rows() : 0, scratch);
    const bool decodes = fits_alone && partial_end <= args.cut.max_partial_rows;
    const int32_t decode_end =
        rows_before[1] + block_scan(decodes ? cut.decode_items() : 0, scratch);
    const int32_t prefill_end =
        rows_before[2] + block_scan(decodes ? 0 : cut.prefill_items(args.cut), scratch);
    if (inside) {
      lists.partial_rows[r + 1] = partial_end;
      lists.decode_items[r + 1] = decode_end;
      lists.prefill_items[r + 1] = prefill_end;
    }
    ptx::sync_threads();
    if (thread == kThreads - 1) {
      carried[0] = partial_end;
      carried[1] = decode_end;
      carried[2] = prefill_end;
    }
    ptx::sync_threads();
  }
}

}  // namespace

void launch_attention_cut(Stream& stream, const AttentionArgs& args) {
  launch<cut_kernel>(stream, {.num_blocks = 1, .num_threads = kThreads, .shared_bytes = 256}, args);
}

}  // namespace quire::cuda
