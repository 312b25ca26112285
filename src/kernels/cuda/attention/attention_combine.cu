// The kernel folds the partial sums of decoded rows over their splits, where the kernel that made them
// has not done so (AttentionArgs::folds_at_once).
#include "kernels/cuda/attention/attention_fold.h"
#include "kernels/cuda/attention/attention_kernels.h"
#include "kernels/cuda/launch.h"

namespace quire::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;

// Returns unit number i of all that there may be; without splits where there is nothing to fold.
QUIRE_DEVICE FoldUnit find_unit(const AttentionArgs& args, int32_t max_rows, int64_t i) {
  const int32_t chunks = fold_chunks(args);
  const int32_t per_row = args.num_kv_heads * chunks;
  const auto row = static_cast<int32_t>(i / per_row);
  const auto rest = static_cast<int32_t>(i % per_row);
  const int32_t request = row / max_rows;
  const int32_t* start = args.query_start_loc + request;
  const RequestCut cut = cut_request(args.cut, start[1] - start[0], args.seq_lens[request]);
  const int32_t* items = args.lists.decode_items + request;
  const bool folds = items[0] < items[1] && cut.num_splits > 1 && row % max_rows < cut.rows;
  if (!folds) return {};
  const AttentionItem item = make_item(args, request, rest / chunks, 0, cut.rows);
  return fold_unit(args, item, cut, row % max_rows, rest % chunks);
}

// The batch was cut before the decode kernel began, so what a warp has to do can be found while
// that one still runs.
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, 4)
    combine_kernel(const AttentionArgs args, int32_t max_rows, int64_t num_units) {
  ptx::let_next_kernel_start();
  const int64_t first = int64_t{ptx::block_index()} * kWarps + ptx::thread_index() / 32;
  for (int64_t i = first; i < num_units; i += int64_t{ptx::num_blocks()} * kWarps) {
    const FoldUnit unit = find_unit(args, max_rows, i);
    ptx::wait_for_previous_kernel();
    if (unit.num_splits > 0) fold_splits<16>(args, unit);
  }
  ptx::wait_for_previous_kernel();  // also where there was no unit: the next kernel counts on it
}

}  // namespace

void launch_combine_attention(Stream& stream, const AttentionArgs& args, int32_t max_rows) {
  const int64_t chunks = fold_chunks(args);
  const int64_t work = int64_t{args.num_reqs} * max_rows * args.num_kv_heads * chunks;
  launch<combine_kernel>(
      stream, {.num_blocks = blocks_for(gpu(stream), work, kWarps, 8), .num_threads = kThreads},
      args, max_rows, work);
}

}  // namespace quire::cuda
