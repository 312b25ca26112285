// Attention of many query rows (FlashAttention-2, Dao 2023): a block holds kRows packed rows, each
// of its four warps a quarter of them, and walks the tiles of 64 positions that any row sees.
// Scores, weights and sums stay in registers; keys and values come through shared memory, the next
// tile loading while this one is used.
#include "kernels/cuda/attention_device.h"
#include "kernels/cuda/attention_kernels.h"
#include "kernels/cuda/launch.h"

namespace quire::cuda {
namespace {

constexpr int kWarps = kAttentionThreads / 32;
constexpr int kBlocksPerSm = 2;

// 32 rows per warp halve what each product reads from shared memory; at 256 dims the sums of 16
// rows fill the registers.
constexpr int row_tiles(int head_dim) { return head_dim <= 128 ? 2 : 1; }

template <int kHeadDim, bool kFp8>
struct PrefillMemory {
  static constexpr int kRows = kWarps * 16 * row_tiles(kHeadDim);
  static constexpr int kStages = 2;
  static constexpr int kQuery = 0;
  using Tiles = TileMemory<kHeadDim, kFp8, kStages, kRows * kHeadDim * 2>;
  static constexpr int kTotal = Tiles::kEnd;
};

// A warp's rows: of each tile of 16 a lane holds two.
template <int kHeadDim>
struct PrefillState {
  static constexpr int kRowTiles = row_tiles(kHeadDim);
  static constexpr int kColumnTiles = kHeadDim / 8;
  float sums[kRowTiles][kColumnTiles][4];
  float weight[kRowTiles][4];  // [0] and [2]: of the lane's rows
  float maximum[kRowTiles][2];
};

template <int kHeadDim>
QUIRE_DEVICE void clear(PrefillState<kHeadDim>& state) {
#pragma unroll
  for (int m = 0; m < PrefillState<kHeadDim>::kRowTiles; ++m) {
    for (auto& tile : state.sums[m])
      for (float& x : tile) x = 0.0f;
    for (float& x : state.weight[m]) x = 0.0f;
    state.maximum[m][0] = state.maximum[m][1] = -ptx::infinity();
  }
}

template <int kHeadDim>
QUIRE_DEVICE void prefill_scores(const uint8_t* query, const uint8_t* keys,
                                 float (&scores)[row_tiles(kHeadDim)][8][4]) {
  constexpr int kRowTiles = row_tiles(kHeadDim);
  const int warp = ptx::thread_index() / 32;
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m)
    for (auto& tile : scores[m])
      for (float& x : tile) x = 0.0f;
#pragma unroll 2  // all at once, the addresses of the loads would take the registers of the sums
  for (int k = 0; k < kHeadDim / 16; ++k) {
    uint32_t a[kRowTiles][4];
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      ptx::load_matrices(a[m], matrix_row(query, (warp * kRowTiles + m) * 16, k * 2, kHeadDim / 8));
    }
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      uint32_t b[4];
      ptx::load_matrices(b, matrix_row_n(keys, n * 16, k * 2, kHeadDim / 8));
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        ptx::multiply_tiles(scores[m][2 * n], a[m], b[0], b[1]);
        ptx::multiply_tiles(scores[m][2 * n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

// Scales the scores of 16 rows and hides what a row does not see; `check` is false where every row
// sees every position of the tile.
QUIRE_DEVICE void scale_and_mask(const AttentionArgs& args, const AttentionItem& item,
                                 int32_t first_row, int32_t first_position, bool check,
                                 float (&scores)[8][4]) {
  const int lane = ptx::thread_index() % 32;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int32_t row = first_row + lane / 4 + h * 8;
    const int32_t query_position = item.first_position + row / args.cut.group;
    const int32_t begin = first_visible(args.cut, query_position);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int32_t position = first_position + n * 8 + lane % 4 * 2 + i;
        float& score = scores[n][2 * h + i];
        score = scaled_score(args, item, score);
        if (check && (position > query_position || position < begin || position >= item.end))
          score = -ptx::infinity();
      }
    }
  }
}

// Weights of 16 rows as A operands, four of 16 positions each; rescales the rows' sums.
template <int kHeadDim>
QUIRE_DEVICE void prefill_weights(PrefillState<kHeadDim>& state, int m, const float (&scores)[8][4],
                                  uint32_t (&weights)[4][4]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float maximum = -ptx::infinity();
#pragma unroll
    for (int n = 0; n < 8; ++n)
      maximum = ptx::max(maximum, ptx::max(scores[n][2 * h], scores[n][2 * h + 1]));
    maximum = ptx::max(maximum, ptx::shuffle_xor(maximum, 1));
    maximum = ptx::max(maximum, ptx::shuffle_xor(maximum, 2));
    maximum = ptx::max(maximum, state.maximum[m][h]);
    const float base = finite_maximum(maximum);
    const float shrink = ptx::exp2_fast(ptx::add(state.maximum[m][h], -base));
    state.maximum[m][h] = maximum;
#pragma unroll
    for (auto& tile : state.sums[m]) {
      tile[2 * h] = ptx::multiply(tile[2 * h], shrink);
      tile[2 * h + 1] = ptx::multiply(tile[2 * h + 1], shrink);
    }
    state.weight[m][2 * h] = ptx::multiply(state.weight[m][2 * h], shrink);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      weights[n / 2][n % 2 * 2 + h] =
          ptx::pack_bf16(ptx::exp2_fast(ptx::add(scores[n][2 * h], -base)),
                         ptx::exp2_fast(ptx::add(scores[n][2 * h + 1], -base)));
    }
  }
}

template <int kHeadDim>
QUIRE_DEVICE void prefill_sums(PrefillState<kHeadDim>& state,
                               const uint32_t (&weights)[row_tiles(kHeadDim)][4][4],
                               const uint8_t* values) {
  constexpr int kRowTiles = row_tiles(kHeadDim);
#pragma unroll
  for (int k = 0; k < kAttentionTile / 16; ++k) {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m)
      ptx::multiply_tiles(state.weight[m], weights[m][k], kBf16Ones, kBf16Ones);
#pragma unroll
    for (int n = 0; n < kHeadDim / 16; ++n) {
      uint32_t b[4];
      ptx::load_matrices_transposed(b, matrix_row(values, k * 16, n * 2, kHeadDim / 8));
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        ptx::multiply_tiles(state.sums[m][2 * n], weights[m][k], b[0], b[1]);
        ptx::multiply_tiles(state.sums[m][2 * n + 1], weights[m][k], b[2], b[3]);
      }
    }
  }
}

// Ends a split as decode's combine does: `state` is folded into this thread's totals in memory and
// cleared, or, at the end, folded and left in `state`.
template <int kHeadDim>
QUIRE_DEVICE void fold_totals(const AttentionArgs& args, PrefillState<kHeadDim>& state,
                              bool is_first, bool is_last) {
  using State = PrefillState<kHeadDim>;
  constexpr int kFloats = State::kRowTiles * (State::kColumnTiles * 4 + 4);
  float* totals =
      args.totals + int64_t{ptx::block_index()} * kFloats * kAttentionThreads + ptx::thread_index();
  int at = 0;
  const auto next = [&]() -> float& { return totals[at++ * kAttentionThreads]; };
#pragma unroll
  for (int m = 0; m < State::kRowTiles; ++m) {
    FoldFactors factors[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float& maximum = next();
      float& weight = next();
      factors[h] = fold_factors(is_first ? -ptx::infinity() : maximum, state.maximum[m][h]);
      maximum = factors[h].maximum;
      weight = fold(factors[h], is_first ? 0.0f : weight, state.weight[m][2 * h]);
      if (is_last) {
        state.maximum[m][h] = maximum;
        state.weight[m][2 * h] = weight;
      }
    }
#pragma unroll
    for (int n = 0; n < State::kColumnTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& total = next();
        total = fold(factors[i / 2], is_first ? 0.0f : total, state.sums[m][n][i]);
        if (is_last) state.sums[m][n][i] = total;
      }
    }
  }
  if (!is_last) clear(state);
}

template <int kHeadDim>
QUIRE_DEVICE void store_rows(const AttentionArgs& args, const AttentionItem& item,
                             const PrefillState<kHeadDim>& state) {
  constexpr int kRowTiles = row_tiles(kHeadDim);
  const int warp = ptx::thread_index() / 32;
  const int lane = ptx::thread_index() % 32;
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int32_t row = item.first_row + (warp * kRowTiles + m) * 16 + lane / 4 + h * 8;
      if (row >= item.end_row) continue;
      const int32_t head = item.kv_head * args.cut.group + row % args.cut.group;
      const Finish finish = finish_row(args, head, state.maximum[m][h], state.weight[m][2 * h]);
      bfloat16* out = out_row(args, item, row);
#pragma unroll
      for (int n = 0; n < kHeadDim / 8; ++n) {
        const int dim = n * 8 + lane % 4 * 2;
        if (dim >= args.head_dim) continue;
        const uint32_t pair = ptx::pack_bf16(finished(finish, state.sums[m][n][2 * h]),
                                             finished(finish, state.sums[m][n][2 * h + 1]));
        *reinterpret_cast<uint32_t*>(out + dim) = pair;
      }
    }
  }
}

template <int kHeadDim, bool kFp8>
QUIRE_DEVICE void prefill_item(const AttentionArgs& args, const AttentionItem& item) {
  using Memory = PrefillMemory<kHeadDim, kFp8>;
  using Tiles = typename Memory::Tiles;
  constexpr int kRowTiles = row_tiles(kHeadDim);
  uint8_t* memory = ptx::shared_memory();
  const int32_t first_tile = item.begin / kAttentionTile;
  const int32_t num_tiles = (item.end - 1) / kAttentionTile + 1 - first_tile;
  const int32_t tiles_per_split = args.cut.split_size / kAttentionTile;
  const bool folds = args.fold_splits &&
                     (first_tile + num_tiles - 1) / tiles_per_split > first_tile / tiles_per_split;
  const auto fetch = [&](int32_t tile) {
    if (tile < num_tiles) {
      load_tile<kHeadDim, kFp8, Tiles>(args, item, (first_tile + tile) * kAttentionTile, item.begin,
                                       item.end, tile % Memory::kStages, memory);
    }
    ptx::copy_async_commit();
  };
  ptx::sync_threads();  // nobody reads what the last item left
  load_query<kHeadDim, Memory::kRows>(args, item, memory + Memory::kQuery);
  fetch(0);

  PrefillState<kHeadDim> state;
  clear(state);
  bool is_first = true;
  // Every row sees every position in [all_begin, all_end).
  const int32_t all_end = item.first_position + item.first_row / args.cut.group + 1;
  const int32_t all_begin = first_visible(args.cut, item.end - 1);
  const int32_t warp_row = item.first_row + ptx::thread_index() / 32 * 16 * kRowTiles;
  for (int32_t tile = 0; tile < num_tiles; ++tile) {
    ptx::copy_async_wait<0>();
    ptx::sync_threads();
    fetch(tile + 1);
    const TileView view = landed_tile<kHeadDim, kFp8, Tiles>(tile % Memory::kStages, memory);
    const int32_t position = (first_tile + tile) * kAttentionTile;
    const bool check = position < all_begin || position + kAttentionTile > all_end;
    uint32_t weights[kRowTiles][4][4];
    {
      float scores[kRowTiles][8][4];
      prefill_scores<kHeadDim>(memory + Memory::kQuery, view.keys, scores);
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        scale_and_mask(args, item, warp_row + m * 16, position, check, scores[m]);
        prefill_weights(state, m, scores[m], weights[m]);
      }
    }
    prefill_sums(state, weights, view.values);
    const bool is_last = tile + 1 == num_tiles;
    if (folds && (is_last || (first_tile + tile + 1) % tiles_per_split == 0)) {
      fold_totals(args, state, is_first, is_last);
      is_first = false;
    }
  }
  ptx::copy_async_wait<0>();
  store_rows(args, item, state);
}

template <int kHeadDim, bool kFp8>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kAttentionThreads, kHeadDim <= 128 ? kBlocksPerSm : 1)
    prefill_kernel(const AttentionArgs args) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  const int32_t num_items = args.lists.prefill_items[args.num_reqs];
  for (int64_t i = ptx::block_index(); i < int64_t{num_items} * args.num_kv_heads;
       i += ptx::num_blocks()) {
    const auto kv_head = static_cast<int32_t>(i % args.num_kv_heads);
    const auto flat = static_cast<int32_t>(i / args.num_kv_heads);
    const int32_t request = find_request(args.lists.prefill_items, args.num_reqs, flat);
    // The last rows of a request see most: they go first.
    const int32_t item_index = args.lists.prefill_items[request + 1] - 1 - flat;
    constexpr int kRows = PrefillMemory<kHeadDim, kFp8>::kRows;
    prefill_item<kHeadDim, kFp8>(args,
                                 make_item(args, request, kv_head, item_index * kRows, kRows));
  }
}

template <int kHeadDim, bool kFp8>
void launch_as(Stream& stream, const AttentionArgs& args) {
  launch<prefill_kernel<kHeadDim, kFp8>>(stream,
                                         {.num_blocks = prefill_blocks(stream),
                                          .num_threads = kAttentionThreads,
                                          .shared_bytes = PrefillMemory<kHeadDim, kFp8>::kTotal},
                                         args);
}
template <int kHeadDim>
void launch_for(Stream& stream, const AttentionArgs& args) {
  if (args.is_fp8) return launch_as<kHeadDim, true>(stream, args);
  launch_as<kHeadDim, false>(stream, args);
}

}  // namespace

int64_t prefill_blocks(const Stream& stream) { return gpu(stream).info().num_sms * kBlocksPerSm; }

int prefill_rows(int head_dim) { return kWarps * 16 * row_tiles(head_dim); }

int64_t prefill_total_floats(int head_dim) {
  const int padded = head_dim <= 64 ? 64 : head_dim <= 128 ? 128 : 256;
  return int64_t{row_tiles(head_dim)} * (padded / 8 * 4 + 4) * kAttentionThreads;
}

void launch_prefill_attention(Stream& stream, const AttentionArgs& args) {
  if (args.head_dim <= 64) return launch_for<64>(stream, args);
  if (args.head_dim <= 128) return launch_for<128>(stream, args);
  launch_for<256>(stream, args);
}

}  // namespace quire::cuda
