// Attention over latents (kernels/api/latent.h) and of heads of more than 256 dims, by tensor
// cores. A block has 16 packed query rows, or 32 for prompts, and reads each tile of 64 positions
// once for all of them. Decode cuts the context into splits, which are combined in order. Prompts
// take the same steps, and a block folds its splits one after another with the arithmetic of
// combine, so that a row has the same bits either way (law L4).
#include "kernels/cuda/attention/attention_kernels.h"
#include "kernels/cuda/attention/attention_rows.h"
#include "kernels/cuda/attention/decode_items.h"
#include "kernels/cuda/attention/wide_tiles.h"
#include "kernels/cuda/launch.h"

namespace quire::cuda {
namespace {

// Adds the tiles with positions in [begin, end) to the rows, in ascending order.
template <typename Shape>
QUIRE_DEVICE void add_tiles(const AttentionArgs& args, const DecodeWork& work, int32_t begin,
                            int32_t end, const QueryOperands<Shape>& query,
                            RingFetcher<Shape>& fetcher, DecodeState<Shape>& state) {
  const float factor = score_factor(args, work.item);
#pragma unroll 1
  for (int32_t first = begin / kAttentionTile * kAttentionTile; first < end;
       first += kAttentionTile) {
    const uint8_t* keys = fetcher.take();
    Scores<Shape> scores;
    score_keys<Shape>(keys, query, scores);
    change_and_mask<Shape>(args, work, first, scores);
    float shrink[Shape::kRowTiles][2];
    take_maxima<Shape>(scores, factor, state, shrink);
    weigh<Shape>(0, scores, factor, state.maximum);
    shrink_state<Shape>(shrink, state);
    const uint8_t* values = keys;
    if constexpr (Shape::kIsLatent) {
      ptx::sync_threads();  // the weights of all warps are written
    } else {
      values = fetcher.take();
    }
    WeightOperands<Shape> weights;
    take_weights<Shape>(0, weights, state);
    add_values<Shape>(values, weights, state);
  }
}

template <typename Shape>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(Shape::kThreads, 1) wide_decode_kernel(const AttentionArgs args) {
  for_each_decode_work<Shape>(args, [&](const DecodeWork& work) {
    begin_reading();
    RingFetcher<Shape> fetcher(args, work);
    QueryOperands<Shape> query;
    load_query<Shape>(args, work, query);
    DecodeState<Shape> state;
    clear(state);
    add_tiles<Shape>(args, work, work.begin, work.end, query, fetcher, state);
    store_item<Shape>(args, work, state);
  });
}

// Returns how many floats a thread stores between splits: sums, and for each row maximum and
// weight.
constexpr int total_floats(int num_sum_tiles, int num_row_tiles) {
  return num_sum_tiles * num_row_tiles * 4 + num_row_tiles * 4;
}
constexpr int kDecodeRowTiles = kDecodeRows / 8;
constexpr int kPrefillRowTiles = 4;
constexpr int kMostTotalFloats = total_floats(4, kPrefillRowTiles);  // for 512 value dims

// Ends a split as combine does: folds it into the totals of the splits before it, and leaves the
// result in `store` and in `state`.
template <typename Shape>
QUIRE_DEVICE void fold_split(DecodeState<Shape>& state, const FoldStore& store, bool is_first) {
  using Four = FoldStore::Four;
  const float none = -ptx::infinity();
#pragma unroll
  for (int r = 0; r < Shape::kRowTiles; ++r) {
    Four ends{{none, 0.0f, none, 0.0f}};
    if (!is_first) ends = store.at(r);
    FoldFactors factors[2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      factors[j] = fold_factors(ends.at[2 * j], state.maximum[r][j]);
      state.maximum[r][j] = factors[j].maximum;
      state.weight[r][j] = fold(factors[j], ends.at[2 * j + 1], state.weight[r][j]);
    }
    store.at(r) = {
        {state.maximum[r][0], state.weight[r][0], state.maximum[r][1], state.weight[r][1]}};
#pragma unroll
    for (int m = 0; m < Shape::kSumTiles; ++m) {
      Four& kept = store.at(Shape::kRowTiles * (m + 1) + r);
      Four totals{};
      if (!is_first) totals = kept;
      float(&sums)[4] = state.sums[m][r];
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[i] = fold(factors[i % 2], totals.at[i], sums[i]);
      kept = {{sums[0], sums[1], sums[2], sums[3]}};
    }
  }
}

// Computes attention of an item's rows over all positions that they see, split by split.
template <typename Shape>
QUIRE_DEVICE void prefill_item(const AttentionArgs& args, const AttentionItem& item) {
  const DecodeWork work{.item = item,
                        .cut = {.num_splits = 1},  // combine has nothing to do
                        .begin = item.begin,
                        .end = item.end,
                        .first_query = item.first_position + item.first_row / args.cut.group};
  auto* const totals = reinterpret_cast<FoldStore::Four*>(
      args.totals + int64_t{ptx::block_index()} * kMostTotalFloats * Shape::kThreads);
  const FoldStore store{totals + ptx::thread_index(), Shape::kThreads};
  ptx::sync_threads();  // the last item's memory is no longer read
  RingFetcher<Shape> fetcher(args, work);
  QueryOperands<Shape> query;
  load_query<Shape>(args, work, query);
  DecodeState<Shape> state;
  const int32_t split_size = args.fold_splits ? args.cut.split_size : item.end;
  const int32_t first_split = item.begin / split_size;
  const int32_t last_split = (item.end - 1) / split_size;
#pragma unroll 1
  for (int32_t split = first_split; split <= last_split; ++split) {
    const int32_t begin = split == first_split ? item.begin : split * split_size;
    const int32_t end = split == last_split ? item.end : (split + 1) * split_size;
    clear(state);
    add_tiles<Shape>(args, work, begin, end, query, fetcher, state);
    if (first_split < last_split) fold_split<Shape>(state, store, split == first_split);
  }
  store_item<Shape>(args, work, state);
}

template <typename Shape>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(Shape::kThreads, 1) wide_prefill_kernel(const AttentionArgs args) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  for_each_prefill_item(args, [&](const AttentionItem& item) { prefill_item<Shape>(args, item); });
}

enum class WideKernel : uint8_t { kDecode, kPrefill };

template <auto kKernel, typename Shape>
void launch_blocks(Stream& stream, const AttentionArgs& args, int64_t num_blocks) {
  launch<kKernel>(stream,
                  {.num_blocks = num_blocks,
                   .num_threads = Shape::kThreads,
                   .shared_bytes = Shape::kSharedBytes},
                  args);
}

// Uses as many slots as fit the GPU's shared memory, at most kSlots.
template <int kKeyDims, int kValueDims, bool kIsLatent, bool kFp8, int kSlots>
void launch_with(Stream& stream, const AttentionArgs& args, WideKernel kernel, int64_t num_blocks) {
  using Decode = WideShape<kKeyDims, kValueDims, kIsLatent, kFp8, kDecodeRowTiles, kSlots>;
  using Prefill = WideShape<kKeyDims, kValueDims, kIsLatent, kFp8, kPrefillRowTiles, kSlots>;
  if constexpr (kSlots > 1) {
    if (Prefill::kSharedBytes > gpu(stream).info().shared_bytes_per_block) {
      return launch_with<kKeyDims, kValueDims, kIsLatent, kFp8, kSlots - 1>(stream, args, kernel,
                                                                            num_blocks);
    }
  }
  if (kernel == WideKernel::kDecode)
    return launch_blocks<wide_decode_kernel<Decode>, Decode>(stream, args, num_blocks);
  launch_blocks<wide_prefill_kernel<Prefill>, Prefill>(stream, args, num_blocks);
}

// Latents use two slots: one is read while the other is filled. Separate keys and values use three.
template <bool kFp8>
void launch_of_type(Stream& stream, const AttentionArgs& args, WideKernel kernel,
                    int64_t num_blocks) {
  constexpr WideDims kHead = wide_dims({.head_dim = 512, .is_fp8 = kFp8});
  constexpr WideDims kSmall = wide_dims({.head_dim = 320, .latent_dim = 256, .is_fp8 = kFp8});
  constexpr WideDims kLarge = wide_dims({.head_dim = 576, .latent_dim = 512, .is_fp8 = kFp8});
  if (!args.is_latent) {
    return launch_with<kHead.key, kHead.value, false, kFp8, 3>(stream, args, kernel, num_blocks);
  }
  const WideDims dims =
      wide_dims({.head_dim = args.head_dim, .latent_dim = args.value_dim, .is_fp8 = kFp8});
  if (dims.key == kSmall.key) {
    return launch_with<kSmall.key, kSmall.value, true, kFp8, 2>(stream, args, kernel, num_blocks);
  }
  launch_with<kLarge.key, kLarge.value, true, kFp8, 2>(stream, args, kernel, num_blocks);
}

void launch_wide(Stream& stream, const AttentionArgs& args, WideKernel kernel, int64_t num_blocks) {
  if (args.is_fp8) return launch_of_type<true>(stream, args, kernel, num_blocks);
  launch_of_type<false>(stream, args, kernel, num_blocks);
}

}  // namespace

PrefillShape wide_prefill_shape(const Stream& stream) {
  using Shape = WideShape<576, 512, true, false, kPrefillRowTiles, 1>;
  constexpr int64_t kThreads = Shape::kThreads;
  return {.item_rows = Shape::kRows,
          .total_floats = gpu(stream).info().num_sms * kMostTotalFloats * kThreads};
}

void launch_wide_decode_attention(Stream& stream, const AttentionArgs& args, int64_t max_items) {
  launch_wide(stream, args, WideKernel::kDecode,
              blocks_for(gpu(stream), max_items, 1, kDecodeBlocksPerSm));
}

// Launches one block per SM, whose shared memory it fills.
void launch_wide_prefill_attention(Stream& stream, const AttentionArgs& args) {
  launch_wide(stream, args, WideKernel::kPrefill, gpu(stream).info().num_sms);
}

}  // namespace quire::cuda
