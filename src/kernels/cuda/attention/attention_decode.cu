// Attention of few query rows over a long context. Its time is that of reading keys and values
// once. The context is cut into splits, and the warps of a block share each tile of 64 positions:
// each warp takes some positions of the scores and some dims of the sums.
#include <type_traits>

#include "kernels/cuda/attention/attention_kernels.h"
#include "kernels/cuda/attention/attention_memory.h"
#include "kernels/cuda/attention/decode_items.h"
#include "kernels/cuda/attention/decode_pairs.h"
#include "kernels/cuda/launch.h"

namespace quire::cuda {
namespace {

// Every tile is two groups of copies, keys and values, which are closed even if no tile is left to
// fetch.
template <typename Shape>
QUIRE_DEVICE void decode_tiles(const AttentionArgs& args, const DecodeWork& work,
                               const QueryOperands<Shape>& query, TileFetcher<Shape>& fetcher,
                               DecodeState<Shape>& state) {
  constexpr int kStages = Shape::kStages;
  const float factor = score_factor(args, work.item);
  uint8_t* memory = ptx::shared_memory();
  const int32_t first_tile = work.begin / kAttentionTile;
  const int32_t end_tile = work.end > work.begin ? (work.end - 1) / kAttentionTile + 1 : first_tile;
  const auto keys = [&](int32_t tile) {
    return memory + static_cast<uint32_t>(tile) % kStages * Shape::kTileBytes;
  };
  const auto fetch = [&](int32_t tile) {
    if (tile < end_tile) {
      fetcher.fetch(tile * kAttentionTile, keys(tile), keys(tile) + Shape::kValues);
    } else {
      ptx::copy_async_commit();
      ptx::copy_async_commit();
    }
  };
#pragma unroll 1
  for (int i = 0; i < kStages - 1; ++i) fetch(first_tile + i);
#pragma unroll 1
  for (int32_t tile = first_tile; tile < end_tile; ++tile) {
    if constexpr (kStages == 1) {
      ptx::sync_threads();  // the tile before is no longer read
      fetch(tile);
      ptx::copy_async_wait<1>();
      ptx::sync_threads();
    } else {
      ptx::copy_async_wait<2 * kStages - 3>();  // the tile's keys have been copied
      ptx::sync_threads();
      fetch(tile + kStages - 1);
    }
    Scores<Shape> scores;
    score_keys<Shape>(keys(tile), query, scores);
    change_and_mask<Shape>(args, work, tile * kAttentionTile, scores);
    float shrink[Shape::kRowTiles][2];
    take_maxima<Shape>(scores, factor, state, shrink);
    weigh<Shape>(0, scores, factor, state.maximum);
    shrink_state<Shape>(shrink, state);
    ptx::copy_async_wait<2 * kStages - 2>();  // and its values
    ptx::sync_threads();
    WeightOperands<Shape> weights;
    take_weights<Shape>(0, weights, state);
    add_values<Shape>(keys(tile) + Shape::kValues, weights, state);
  }
}

template <typename Shape>
QUIRE_DEVICE void attend(const AttentionArgs& args, const DecodeWork& work) {
  TileFetcher<Shape> fetcher(args, work);
  if constexpr (Shape::kTilesAtOnce == 2) fetcher.prefetch();
  begin_reading();
  QueryOperands<Shape> query;
  load_query<Shape>(args, work, query);
  DecodeState<Shape> state;
  clear(state);
  if constexpr (Shape::kTilesAtOnce == 2) {
    decode_pairs<Shape>(args, work, query, fetcher, state);
  } else {
    decode_tiles<Shape>(args, work, query, fetcher, state);
  }
  store_item<Shape>(args, work, state);
}

// Returns how many blocks an SM holds at once, by their shared memory, which both kinds of items
// share, and by their registers.
template <typename Shape, typename Pack>
constexpr int blocks_per_sm() {
  constexpr int kSharedBytesPerSm = 228 << 10;  // compute capability 9.0, which has the most
  constexpr int kByMemory = kSharedBytesPerSm / (Pack::kSharedBytes + (1 << 10));
  constexpr int kByRegisters = Shape::kWarpsPerSm / Shape::kWarps;
  return kByMemory < kByRegisters ? kByMemory : kByRegisters;
}

// `Pack` is the shape of the items of packs; it is `Shape` if there are none.
template <typename Shape, typename Pack>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(Shape::kThreads, (blocks_per_sm<Shape, Pack>()))
    decode_kernel(const AttentionArgs args) {
  static_assert(Pack::kThreads == Shape::kThreads && Pack::kWork >= Shape::kWork);
  for_each_decode_work<Pack>(args, [&](const DecodeWork& work) {
    if constexpr (Pack::kIsPacked) {
      if (work.requests != nullptr) return attend<Pack>(args, work);
    }
    attend<Shape>(args, work);
  });
}

// With few requests, most of the items that there may be usually do not exist. So only as many
// blocks are launched as run at once, and none of them waits for blocks without work.
template <typename Shape, typename Pack>
void launch_shape(Stream& stream, const AttentionArgs& args, int64_t max_items) {
  const bool is_few = has_few_readers(args.num_reqs, args.num_kv_heads);
  const int64_t blocks = is_few ? blocks_per_sm<Shape, Pack>() : kDecodeBlocksPerSm;
  launch<decode_kernel<Shape, Pack>>(stream,
                                     {.num_blocks = blocks_for(gpu(stream), max_items, 1, blocks),
                                      .num_threads = Shape::kThreads,
                                      .shared_bytes = Pack::kSharedBytes},
                                     args);
}
template <int kHeadDim, bool kFp8, int kRowTiles, int kStages>
void launch_as(Stream& stream, const AttentionArgs& args, int64_t max_items) {
  using Shape = DecodeShape<kHeadDim, kFp8, kRowTiles, kStages>;
  using Pack = std::conditional_t<kFp8, Shape, PackShape<kHeadDim, kStages>>;
  launch_shape<Shape, Pack>(stream, args, max_items);
}

// Few requests leave most SMs idle, and each request waits for one tile after another; taking two
// at once needs less time. Above 128 dims a block has no room for that. Packs use the other shape.
template <typename Shape>
bool takes_pairs(const Stream& stream, const AttentionArgs& args) {
  return args.cut.pack_rows == 0 && has_few_readers(args.num_reqs, args.num_kv_heads) &&
         Shape::kSharedBytes <= gpu(stream).info().shared_bytes_per_block;
}

template <int kHeadDim, bool kFp8, int kRowTiles>
void launch_kind(Stream& stream, const AttentionArgs& args, int64_t max_items) {
  if constexpr (kHeadDim <= 128 && kRowTiles == 1) {
    using Pairs = PairShape<kHeadDim, kFp8>;
    if (takes_pairs<Pairs>(stream, args))
      return launch_shape<Pairs, Pairs>(stream, args, max_items);
  }
  constexpr int64_t kLeast = least_attention_shared_bytes(kHeadDim, kFp8);
  constexpr int64_t kTwoStages = PackShape<kHeadDim, 2>::kSharedBytes;
  if constexpr (!kFp8 && kTwoStages > kLeast) {
    static_assert(PackShape<kHeadDim, 1>::kSharedBytes <= kLeast);
    if (kTwoStages > gpu(stream).info().shared_bytes_per_block)
      return launch_as<kHeadDim, kFp8, kRowTiles, 1>(stream, args, max_items);
  }
  launch_as<kHeadDim, kFp8, kRowTiles, 2>(stream, args, max_items);
}
template <int kHeadDim, int kRowTiles>
void launch_for(Stream& stream, const AttentionArgs& args, int64_t max_items) {
  if (args.is_fp8) return launch_kind<kHeadDim, true, kRowTiles>(stream, args, max_items);
  launch_kind<kHeadDim, false, kRowTiles>(stream, args, max_items);
}
template <int kRowTiles>
void launch_with(Stream& stream, const AttentionArgs& args, int64_t max_items) {
  if (args.head_dim <= 64) return launch_for<64, kRowTiles>(stream, args, max_items);
  if (args.head_dim <= 128) return launch_for<128, kRowTiles>(stream, args, max_items);
  launch_for<256, kRowTiles>(stream, args, max_items);
}

}  // namespace

void launch_decode_attention(Stream& stream, const AttentionArgs& args, int32_t max_rows,
                             int64_t max_items) {
  if (max_rows <= 8) return launch_with<1>(stream, args, max_items);
  launch_with<2>(stream, args, max_items);
}

}  // namespace quire::cuda
