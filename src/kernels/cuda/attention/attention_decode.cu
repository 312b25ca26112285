// This is attention of few query rows over a long context. The context is cut into splits, and four
// warps share each tile of 64 positions: 16 positions of the scores each, a quarter of the dims of
// the sums each. Reading keys and values once bounds it.
#include "kernels/cuda/attention/attention_device.h"
#include "kernels/cuda/attention/attention_kernels.h"
#include "kernels/cuda/launch.h"

namespace quire::cuda {
namespace {

// These are the parts of a block's dynamic shared memory, in bytes.
template <int kHeadDim, bool kFp8>
struct DecodeMemory {
  static constexpr int kStages = kFp8 || kHeadDim <= 64 ? 3 : 2;
  static constexpr int kQuery = 0;
  using Tiles = TileMemory<kHeadDim, kFp8, kStages, kDecodeRows * kHeadDim * 2>;
  static constexpr int kWeights = Tiles::kEnd;                                 // [16][64] bf16
  static constexpr int kMaxima = kWeights + kDecodeRows * kAttentionTile * 2;  // [4][16] float
  static constexpr int kTotal = kMaxima + 4 * kDecodeRows * 4;
};

// These are the sums of one warp: its quarter of the dims for 16 rows, of which a lane holds two.
template <int kHeadDim>
struct DecodeState {
  static constexpr int kColumnTiles = kHeadDim / 32;  // of 8 dims, per warp
  float sums[kColumnTiles][4];
  float weight[4];  // [0] and [2]: of the lane's rows
  float maximum[2];
};

template <int kHeadDim>
QUIRE_DEVICE void clear(DecodeState<kHeadDim>& state) {
#pragma unroll
  for (auto& tile : state.sums)
    for (float& x : tile) x = 0.0f;
  for (float& x : state.weight) x = 0.0f;
  state.maximum[0] = state.maximum[1] = -ptx::infinity();
}

// Computes the scores of the warp's 16 positions; masked ones are -infinity.
template <int kHeadDim>
QUIRE_DEVICE void decode_scores(const AttentionArgs& args, const AttentionItem& item,
                                const uint32_t (&query)[kHeadDim / 16][4], const uint8_t* keys,
                                int32_t first_position, float (&scores)[2][4]) {
  const int warp = ptx::thread_index() / 32;
  const int lane = ptx::thread_index() % 32;
  for (auto& tile : scores)
    for (float& x : tile) x = 0.0f;
#pragma unroll
  for (int k = 0; k < kHeadDim / 16; ++k) {
    uint32_t b[4];
    ptx::load_matrices(b, matrix_row_n(keys, warp * 16, k * 2, kHeadDim / 8));
    ptx::multiply_tiles(scores[0], query[k], b[0], b[1]);
    ptx::multiply_tiles(scores[1], query[k], b[2], b[3]);
  }
#pragma unroll
  for (int j = 0; j < 2; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int32_t row = item.first_row + lane / 4 + i / 2 * 8;
      const int32_t position = first_position + warp * 16 + j * 8 + lane % 4 * 2 + i % 2;
      const int32_t query_position = item.first_position + row / args.cut.group;
      const bool visible = position < item.end && is_visible(args, query_position, position);
      scores[j][i] = visible ? scaled_score(args, item, scores[j][i]) : -ptx::infinity();
    }
  }
}

// Exchanges maxima and weights between the warps through shared memory. On return the weights of
// the whole tile are there and the state is rescaled.
template <typename Memory, int kHeadDim>
QUIRE_DEVICE void decode_weights(DecodeState<kHeadDim>& state, const float (&scores)[2][4],
                                 uint8_t* memory) {
  const int warp = ptx::thread_index() / 32;
  const int lane = ptx::thread_index() % 32;
  auto* maxima = reinterpret_cast<float*>(memory + Memory::kMaxima);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float maximum = ptx::max(ptx::max(scores[0][2 * h], scores[0][2 * h + 1]),
                             ptx::max(scores[1][2 * h], scores[1][2 * h + 1]));
    maximum = ptx::max(maximum, ptx::shuffle_xor(maximum, 1));
    maximum = ptx::max(maximum, ptx::shuffle_xor(maximum, 2));
    if (lane % 4 == 0) maxima[warp * kDecodeRows + lane / 4 + h * 8] = maximum;
  }
  ptx::sync_threads();
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = lane / 4 + h * 8;
    float maximum = state.maximum[h];
    for (int w = 0; w < 4; ++w) maximum = ptx::max(maximum, maxima[w * kDecodeRows + row]);
    const float base = finite_maximum(maximum);
    const float shrink = ptx::exp2_fast(ptx::add(state.maximum[h], -base));
    state.maximum[h] = maximum;
    for (auto& tile : state.sums) {
      tile[2 * h] = ptx::multiply(tile[2 * h], shrink);
      tile[2 * h + 1] = ptx::multiply(tile[2 * h + 1], shrink);
    }
    state.weight[2 * h] = ptx::multiply(state.weight[2 * h], shrink);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const uint32_t packed = ptx::pack_bf16(ptx::exp2_fast(ptx::add(scores[j][2 * h], -base)),
                                             ptx::exp2_fast(ptx::add(scores[j][2 * h + 1], -base)));
      const int at = swizzled_offset(row, warp * 2 + j, kAttentionTile / 8) + lane % 4 * 4;
      *reinterpret_cast<uint32_t*>(memory + Memory::kWeights + at) = packed;
    }
  }
  ptx::sync_threads();
}

template <int kHeadDim>
QUIRE_DEVICE void decode_sums(DecodeState<kHeadDim>& state, const uint8_t* weights,
                              const uint8_t* values) {
  const int warp = ptx::thread_index() / 32;
#pragma unroll
  for (int k = 0; k < kAttentionTile / 16; ++k) {
    uint32_t a[4];
    ptx::load_matrices(a, matrix_row(weights, 0, k * 2, kAttentionTile / 8));
    ptx::multiply_tiles(state.weight, a, kBf16Ones, kBf16Ones);
#pragma unroll
    for (int n = 0; n < DecodeState<kHeadDim>::kColumnTiles / 2; ++n) {
      uint32_t b[4];
      const int chunk = warp * (kHeadDim / 32) + n * 2;
      ptx::load_matrices_transposed(b, matrix_row(values, k * 16, chunk, kHeadDim / 8));
      ptx::multiply_tiles(state.sums[2 * n], a, b[0], b[1]);
      ptx::multiply_tiles(state.sums[2 * n + 1], a, b[2], b[3]);
    }
  }
}

// Writes to the output when the row has one split, else to the partials.
template <int kHeadDim>
QUIRE_DEVICE void store_item(const AttentionArgs& args, const AttentionItem& item,
                             const RequestCut& cut, int32_t split,
                             const DecodeState<kHeadDim>& state) {
  const int warp = ptx::thread_index() / 32;
  const int lane = ptx::thread_index() % 32;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int32_t row = item.first_row + lane / 4 + h * 8;
    if (row >= item.end_row) continue;
    const int32_t head = item.kv_head * args.cut.group + row % args.cut.group;
    const Finish finish = finish_row(args, head, state.maximum[h], state.weight[2 * h]);
    bfloat16* out = out_row(args, item, row);
    const int64_t slot =
        args.lists.partial_rows[item.request] + int64_t{split - cut.first_split} * cut.rows + row;
    float* partial =
        args.partials + (slot * args.num_kv_heads + item.kv_head) * (args.head_dim + 2);
#pragma unroll
    for (int n = 0; n < DecodeState<kHeadDim>::kColumnTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int dim = warp * (kHeadDim / 4) + n * 8 + lane % 4 * 2 + i;
        if (dim >= args.head_dim) continue;
        const float sum = state.sums[n][2 * h + i];
        if (cut.num_splits == 1) {
          out[dim] = narrow<bfloat16>(finished(finish, sum));
        } else {
          partial[dim] = sum;
        }
      }
    }
    if (cut.num_splits > 1 && warp == 0 && lane % 4 == 0) {
      partial[args.head_dim] = state.maximum[h];
      partial[args.head_dim + 1] = state.weight[2 * h];
    }
  }
}

template <int kHeadDim, bool kFp8>
QUIRE_DEVICE void decode_item(const AttentionArgs& args, const AttentionItem& item,
                              const RequestCut& cut, int32_t split) {
  using Memory = DecodeMemory<kHeadDim, kFp8>;
  using Tiles = typename Memory::Tiles;
  uint8_t* memory = ptx::shared_memory();
  const int32_t split_begin = split * args.cut.split_size;
  const int32_t begin = item.begin > split_begin ? item.begin : split_begin;
  const int32_t split_end = split_begin + args.cut.split_size;
  const int32_t end = item.end < split_end ? item.end : split_end;
  const int32_t first_tile = begin / kAttentionTile;
  const int32_t num_tiles = end > begin ? (end - 1) / kAttentionTile + 1 - first_tile : 0;
  const auto fetch = [&](int32_t tile) {
    if (tile < num_tiles) {
      load_tile<kHeadDim, kFp8, Tiles>(args, item, (first_tile + tile) * kAttentionTile, begin, end,
                                       tile % Memory::kStages, memory);
    }
    ptx::copy_async_commit();
  };
  ptx::sync_threads();  // nobody may still read what the last item left
  load_query<kHeadDim, kDecodeRows>(args, item, memory + Memory::kQuery);
#pragma unroll
  for (int tile = 0; tile < Memory::kStages - 1; ++tile) fetch(tile);

  DecodeState<kHeadDim> state;
  clear(state);
  uint32_t query[kHeadDim / 16][4];
  for (int32_t tile = 0; tile < num_tiles; ++tile) {
    ptx::copy_async_wait<Memory::kStages - 2>();
    ptx::sync_threads();
    fetch(tile + Memory::kStages - 1);
    if (tile == 0) {
#pragma unroll
      for (int k = 0; k < kHeadDim / 16; ++k)
        ptx::load_matrices(query[k], matrix_row(memory + Memory::kQuery, 0, k * 2, kHeadDim / 8));
    }
    const TileView view = landed_tile<kHeadDim, kFp8, Tiles>(tile % Memory::kStages, memory);
    float scores[2][4];
    decode_scores<kHeadDim>(args, item, query, view.keys, (first_tile + tile) * kAttentionTile,
                            scores);
    decode_weights<Memory>(state, scores, memory);
    decode_sums(state, memory + Memory::kWeights, view.values);
  }
  ptx::copy_async_wait<0>();
  store_item(args, item, cut, split, state);
}

template <int kHeadDim, bool kFp8>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kAttentionThreads, kHeadDim <= 128 ? 3 : 1)
    decode_kernel(const AttentionArgs args) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  const int32_t num_items = args.lists.decode_items[args.num_reqs];
  for (int64_t i = ptx::block_index(); i < int64_t{num_items} * args.num_kv_heads;
       i += ptx::num_blocks()) {
    const auto kv_head = static_cast<int32_t>(i % args.num_kv_heads);
    const auto flat = static_cast<int32_t>(i / args.num_kv_heads);
    const int32_t request = find_request(args.lists.decode_items, args.num_reqs, flat);
    const int32_t query_len = args.query_start_loc[request + 1] - args.query_start_loc[request];
    const RequestCut cut = cut_request(args.cut, query_len, args.seq_lens[request]);
    const int32_t local = flat - args.lists.decode_items[request];
    const int32_t split = cut.first_split + local % cut.num_splits;
    const AttentionItem item =
        make_item(args, request, kv_head, local / cut.num_splits * kDecodeRows, kDecodeRows);
    decode_item<kHeadDim, kFp8>(args, item, cut, split);
  }
}

template <int kHeadDim, bool kFp8>
void launch_as(Stream& stream, const AttentionArgs& args, int64_t max_items) {
  launch<decode_kernel<kHeadDim, kFp8>>(
      stream,
      {.num_blocks = blocks_for(gpu(stream), max_items, 1, kHeadDim <= 128 ? 3 : 1),
       .num_threads = kAttentionThreads,
       .shared_bytes = DecodeMemory<kHeadDim, kFp8>::kTotal},
      args);
}
template <int kHeadDim>
void launch_for(Stream& stream, const AttentionArgs& args, int64_t max_items) {
  if (args.is_fp8) return launch_as<kHeadDim, true>(stream, args, max_items);
  launch_as<kHeadDim, false>(stream, args, max_items);
}

}  // namespace

void launch_decode_attention(Stream& stream, const AttentionArgs& args, int64_t max_items) {
  if (args.head_dim <= 64) return launch_for<64>(stream, args, max_items);
  if (args.head_dim <= 128) return launch_for<128>(stream, args, max_items);
  launch_for<256>(stream, args, max_items);
}

}  // namespace quire::cuda
