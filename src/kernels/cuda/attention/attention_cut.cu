// Cuts a batch into attention items on the GPU, with a single block, so that a captured graph needs
// no numbers from the host.
#include "kernels/cuda/attention/attention_kernels.h"
#include "kernels/cuda/attention/attention_sharing.h"
#include "kernels/cuda/launch.h"

namespace quire::cuda {
namespace {

constexpr int kScratchBytes = 128;

// Returns inclusive prefix sums over the block, continuing from `total`, to which the sum over the
// block is added; it is the same in all threads. `scratch` has an int per warp.
QUIRE_DEVICE int32_t running_sum(int32_t x, int32_t& total, int32_t* scratch) {
  const int warp = ptx::thread_index() / 32;
  const int lane = ptx::thread_index() % 32;
  for (int delta = 1; delta < 32; delta *= 2) {
    const int32_t below = ptx::shuffle_up(x, delta);
    if (lane >= delta) x += below;
  }
  ptx::sync_threads();
  if (lane == 31) scratch[warp] = x;
  ptx::sync_threads();
  x += total;
  for (int w = 0; w < kCutThreads / 32; ++w) {
    if (w < warp) x += scratch[w];
    total += scratch[w];
  }
  return x;
}

// A request may decode if the partial sums of it and of all such requests before it fit into the
// workspace; all others go to prefill, which needs none.
QUIRE_DEVICE void cut_requests(const AttentionArgs& args, int32_t* scratch) {
  const CutLists& lists = args.lists;
  const int thread = ptx::thread_index();
  if (thread == 0) lists.decode_items[0] = lists.prefill_items[0] = lists.partial_rows[0] = 0;
  int32_t num_partials = 0;
  int32_t num_decode = 0;
  int32_t num_prefill = 0;
  for (int32_t first = 0; first < args.num_reqs; first += kCutThreads) {
    const int32_t r = first + thread;
    const bool inside = r < args.num_reqs;
    const RequestCut cut =
        inside ? cut_request(args.cut, args.query_start_loc[r + 1] - args.query_start_loc[r],
                             args.seq_lens[r])
               : RequestCut{};
    // Requests whose partial sums alone do not fit are left out, so that the sums stay far below
    // 2^31.
    const bool fits_alone =
        cut.may_decode && int64_t{cut.rows} * cut.num_splits <= args.cut.max_partial_rows;
    const int32_t partial_end =
        running_sum(fits_alone ? cut.partial_rows() : 0, num_partials, scratch);
    const bool decodes = fits_alone && partial_end <= args.cut.max_partial_rows;
    const int32_t decode_end = running_sum(decodes ? cut.decode_items() : 0, num_decode, scratch);
    const int32_t prefill_end =
        running_sum(decodes ? 0 : cut.prefill_items(args.cut), num_prefill, scratch);
    if (!inside) continue;
    lists.partial_rows[r + 1] = partial_end;
    lists.decode_items[r + 1] = decode_end;
    lists.prefill_items[r + 1] = prefill_end;
  }
}

// Lists the packs, and subtracts what they read from the requests' own items.
QUIRE_DEVICE void list_packs(const AttentionArgs& args, const Sharing& sharing, int32_t* scratch) {
  const CutLists& lists = args.lists;
  const int thread = ptx::thread_index();
  if (thread == 0) lists.pack_items[0] = lists.pack_begins[0] = 0;
  int32_t num_packs = 0;
  int32_t num_members = 0;
  int32_t num_items = 0;
  for (int32_t first = 0; first < args.num_reqs; first += kCutThreads) {
    const int32_t r = first + thread;
    const Sharing::Member member = r < args.num_reqs ? sharing.member(r) : Sharing::Member{};
    const bool is_head = member.size > 0 && member.head == r;
    const int32_t pack_end = running_sum(is_head ? 1 : 0, num_packs, scratch);
    const int32_t member_end = running_sum(is_head ? member.size : 0, num_members, scratch);
    const int32_t item_end = running_sum(is_head ? member.splits.count() : 0, num_items, scratch);
    if (r < args.num_reqs) lists.packed[r] = member.splits;
    if (!is_head) continue;
    lists.pack_begins[pack_end] = member_end;
    lists.pack_items[pack_end] = item_end;
    sharing.note_begin(r, member_end - member.size);
  }
  ptx::sync_threads();
  if (thread == 0) {
    *lists.num_packs = num_packs;
    lists.decode_items[0] = num_items;
  }
  int32_t num_taken = 0;
  for (int32_t first = 0; first < args.num_reqs; first += kCutThreads) {
    const int32_t r = first + thread;
    const Sharing::Member member = r < args.num_reqs ? sharing.member(r) : Sharing::Member{};
    const int32_t taken_end = running_sum(member.splits.count(), num_taken, scratch);
    if (r >= args.num_reqs) continue;
    lists.decode_items[r + 1] += num_items - taken_end;
    if (member.size > 0) lists.pack_requests[sharing.begin_of(member) + member.rank] = r;
  }
}

QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kCutThreads, 1) cut_kernel(const AttentionArgs args) {
  ptx::wait_for_previous_kernel();
  auto* scratch = reinterpret_cast<int32_t*>(ptx::shared_memory());
  cut_requests(args, scratch);
  if (args.cut.pack_rows == 0) return;
  ptx::sync_threads();  // cut_requests() has written the lists
  Sharing sharing(args, ptx::shared_memory() + kScratchBytes);
  if (sharing.find()) list_packs(args, sharing, scratch);
}

}  // namespace

void launch_attention_cut(Stream& stream, const AttentionArgs& args) {
  const int64_t sharing = args.cut.pack_rows > 0 ? sharing_bytes(args.num_reqs) : 0;
  launch<cut_kernel>(
      stream,
      {.num_blocks = 1, .num_threads = kCutThreads, .shared_bytes = kScratchBytes + sharing}, args);
}

}  // namespace quire::cuda
