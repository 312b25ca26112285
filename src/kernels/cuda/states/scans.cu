// The recurrences of states: selective_scan(), ssd_scan() and delta_rule(). Each moves the columns
// of a state past one token after the other, with the arithmetic in one order, so that a token's
// bits do not depend on where its sequence is cut into steps and snapshots (law L4; decisions 022
// and 118).
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/states/scan_tiles.h"

namespace quire::cuda {
namespace {

// The arguments that all recurrences have. State h has `num_columns` columns of `num_rows` rows.
struct ScanShape {
  StateSegments segments;
  StateView state;
  int32_t num_states = 1;
  int32_t num_columns = 0;
  int32_t num_rows = 0;
  int32_t num_tiles = 0;  // tiles of kBlockColumns columns in a state
};

// The part of the states that a block computes.
struct ScanPlace {
  int32_t state = 0;
  int32_t first_column = 0;
  int32_t num_columns = 0;
};

// Mamba: the columns are channels, and the rows the states of a channel.
struct SelectiveScan {
  const float* x;
  int64_t x_stride;
  const float* delta;
  const float* b;
  const float* c;
  int64_t bc_stride;
  const float* a;
  const float* d;
  float* out;

  template <typename Form>
  using Layout = TileLayout<Form, 2, 2, 0>;
  // The model's weights that a thread needs.
  template <typename Form>
  struct Weights {
    float rates[Form::kRows];
    float d;
  };
  template <typename Form>
  QUIRE_DEVICE Weights<Form> weights(const ScanShape& shape, const ScanPlace& place) const {
    static_assert(Form::kColumns == 1);
    const bool has_column = block_column<Form>() < place.num_columns;
    const int64_t column = place.first_column + block_column<Form>();
    Weights<Form> mine;
    load_column<Form>(has_column ? a + column * shape.num_rows : nullptr, shape.num_rows,
                      mine.rates);
    mine.d = has_column ? d[column] : 0.0f;
    return mine;
  }
  template <typename Form>
  QUIRE_DEVICE void fetch(const ScanShape& shape, const ScanPlace& place, const TileCursor& tile,
                          float* to) const {
    using At = Layout<Form>;
    constexpr int kRows = Form::kPaddedRows;
    const int32_t column = place.first_column;
    fetch_rows<Form, kRows>({b, bc_stride, shape.num_rows}, tile, to + At::rows(0));
    fetch_rows<Form, kRows>({c, bc_stride, shape.num_rows}, tile, to + At::rows(1));
    fetch_rows<Form, kBlockColumns>({x + column, x_stride, place.num_columns}, tile,
                                    to + At::columns(0));
    fetch_rows<Form, kBlockColumns>({delta + column, shape.num_columns, place.num_columns}, tile,
                                    to + At::columns(1));
  }
  template <typename Form>
  QUIRE_DEVICE void step(const float* tile, int token, const Weights<Form>& mine,
                         StateColumns<Form>& state, float (&sums)[Form::kColumns]) const {
    using At = Layout<Form>;
    float b_rows[Form::kRows], c_rows[Form::kRows];
    read_rows<Form>(tile + At::rows(0) + token * Form::kPaddedRows, b_rows);
    read_rows<Form>(tile + At::rows(1) + token * Form::kPaddedRows, c_rows);
    const int column = token * kBlockColumns + block_column<Form>();
    const float step_size = tile[At::columns(1) + column];
    const float moved = ptx::multiply(step_size, tile[At::columns(0) + column]);
    sums[0] = 0.0f;
#pragma unroll
    for (int r = 0; r < Form::kRows; ++r) {
      const float decay = expf(ptx::multiply(step_size, mine.rates[r]));
      state.at[0][r] = ptx::multiply_add(decay, state.at[0][r], ptx::multiply(moved, b_rows[r]));
      sums[0] = ptx::multiply_add(c_rows[r], state.at[0][r], sums[0]);
    }
  }
  template <typename Form>
  QUIRE_DEVICE float result(const float* tile, int token, int column, const Weights<Form>& mine,
                            float sum) const {
    const float value = tile[Layout<Form>::columns(0) + token * kBlockColumns + column];
    return ptx::multiply_add(mine.d, value, sum);
  }
};

// Mamba-2: one state per head; its columns are the dims of the head.
struct SsdScan {
  const float* x;
  const float* b;
  const float* c;
  int64_t x_stride;
  const float* delta;
  const float* decay;
  const float* d;
  float* out;
  int32_t heads_per_group;

  template <typename Form>
  using Layout = TileLayout<Form, 2, 1, 2>;
  template <typename Form>
  struct Weights {
    float d;
    int delta_at;  // in its piece
    int decay_at;
  };
  template <typename Form>
  QUIRE_DEVICE Weights<Form> weights(const ScanShape& shape, const ScanPlace& place) const {
    const int32_t head = place.state;
    return {d[head], place_in_piece(piece_of(delta, shape.num_states, head), head),
            place_in_piece(piece_of(decay, shape.num_states, head), head)};
  }
  template <typename Form>
  QUIRE_DEVICE void fetch(const ScanShape& shape, const ScanPlace& place, const TileCursor& tile,
                          float* to) const {
    using At = Layout<Form>;
    constexpr int kRows = Form::kPaddedRows;
    const int64_t group = int64_t{place.state / heads_per_group} * shape.num_rows;
    const int64_t column = int64_t{place.state} * shape.num_columns + place.first_column;
    fetch_rows<Form, kRows>({b + group, x_stride, shape.num_rows}, tile, to + At::rows(0));
    fetch_rows<Form, kRows>({c + group, x_stride, shape.num_rows}, tile, to + At::rows(1));
    fetch_rows<Form, kBlockColumns>({x + column, x_stride, place.num_columns}, tile,
                                    to + At::columns(0));
    fetch_rows<Form, 4>(piece_of(delta, shape.num_states, place.state), tile, to + At::pieces(0));
    fetch_rows<Form, 4>(piece_of(decay, shape.num_states, place.state), tile, to + At::pieces(1));
  }
  template <typename Form>
  QUIRE_DEVICE void step(const float* tile, int token, const Weights<Form>& mine,
                         StateColumns<Form>& state, float (&sums)[Form::kColumns]) const {
    using At = Layout<Form>;
    float b_rows[Form::kRows], c_rows[Form::kRows], values[Form::kColumns];
    read_rows<Form>(tile + At::rows(0) + token * Form::kPaddedRows, b_rows);
    read_rows<Form>(tile + At::rows(1) + token * Form::kPaddedRows, c_rows);
    load(tile + At::columns(0) + token * kBlockColumns + block_column<Form>(), values);
    const float step_size = tile[At::pieces(0) + 4 * token + mine.delta_at];
    const float factor = tile[At::pieces(1) + 4 * token + mine.decay_at];
#pragma unroll
    for (int i = 0; i < Form::kColumns; ++i) {
      const float moved = ptx::multiply(step_size, values[i]);
      sums[i] = 0.0f;
#pragma unroll
      for (int r = 0; r < Form::kRows; ++r) {
        state.at[i][r] = ptx::multiply_add(factor, state.at[i][r], ptx::multiply(b_rows[r], moved));
        sums[i] = ptx::multiply_add(state.at[i][r], c_rows[r], sums[i]);
      }
    }
  }
  template <typename Form>
  QUIRE_DEVICE float result(const float* tile, int token, int column, const Weights<Form>& mine,
                            float sum) const {
    const float value = tile[Layout<Form>::columns(0) + token * kBlockColumns + column];
    return ptx::multiply_add(mine.d, value, sum);
  }
};

// Gated DeltaNet and, with a decay per row of a state, Kimi Delta Attention: one state per head;
// its rows are the dims of keys.
template <bool kRowDecay>
struct DeltaRule {
  const float* q;
  const float* k;
  const float* v;
  int64_t qkv_stride;
  const float* decay;
  const float* beta;
  float* out;
  int32_t num_key_heads;
  bool tiled_heads;

  template <typename Form>
  using Layout = TileLayout<Form, kRowDecay ? 3 : 2, 1, kRowDecay ? 1 : 2>;
  template <typename Form>
  struct Weights {
    int beta_at;  // in its piece
    int decay_at;
  };
  template <typename Form>
  QUIRE_DEVICE Weights<Form> weights(const ScanShape& shape, const ScanPlace& place) const {
    const int32_t head = place.state;
    return {place_in_piece(piece_of(beta, shape.num_states, head), head),
            place_in_piece(piece_of(decay, shape.num_states, head), head)};
  }
  template <typename Form>
  QUIRE_DEVICE void fetch(const ScanShape& shape, const ScanPlace& place, const TileCursor& tile,
                          float* to) const {
    using At = Layout<Form>;
    constexpr int kRows = Form::kPaddedRows;
    const int32_t head = place.state, num_heads = shape.num_states, num_rows = shape.num_rows;
    const int32_t key_head =
        tiled_heads ? head % num_key_heads : head / (num_heads / num_key_heads);
    const int64_t key = int64_t{key_head} * num_rows;
    const int64_t column = int64_t{head} * shape.num_columns + place.first_column;
    fetch_rows<Form, kRows>({k + key, qkv_stride, num_rows}, tile, to + At::rows(0));
    fetch_rows<Form, kRows>({q + key, qkv_stride, num_rows}, tile, to + At::rows(1));
    fetch_rows<Form, kBlockColumns>({v + column, qkv_stride, place.num_columns}, tile,
                                    to + At::columns(0));
    fetch_rows<Form, 4>(piece_of(beta, num_heads, head), tile, to + At::pieces(0));
    if constexpr (kRowDecay) {
      const TokenRows rows{decay + int64_t{head} * num_rows, int64_t{num_heads} * num_rows,
                           num_rows};
      fetch_rows<Form, kRows>(rows, tile, to + At::rows(2));
    } else {
      fetch_rows<Form, 4>(piece_of(decay, num_heads, head), tile, to + At::pieces(1));
    }
  }
  template <typename Form>
  QUIRE_DEVICE void step(const float* tile, int token, const Weights<Form>& mine,
                         StateColumns<Form>& state, float (&sums)[Form::kColumns]) const {
    using At = Layout<Form>;
    float keys[Form::kRows], factors[Form::kRows], queries[Form::kRows], values[Form::kColumns];
    read_rows<Form>(tile + At::rows(0) + token * Form::kPaddedRows, keys);
    if constexpr (kRowDecay) {
      read_rows<Form>(tile + At::rows(2) + token * Form::kPaddedRows, factors);
    } else {
      for (float& factor : factors) factor = tile[At::pieces(1) + 4 * token + mine.decay_at];
    }
    load(tile + At::columns(0) + token * kBlockColumns + block_column<Form>(), values);
    float changes[Form::kColumns];
#pragma unroll
    for (int i = 0; i < Form::kColumns; ++i) {
      float memory = 0.0f;
#pragma unroll
      for (int r = 0; r < Form::kRows; ++r) {
        state.at[i][r] = ptx::multiply(factors[r], state.at[i][r]);
        memory = ptx::multiply_add(state.at[i][r], keys[r], memory);
      }
      changes[i] = column_sum<Form>(memory);
    }
    const float strength = tile[At::pieces(0) + 4 * token + mine.beta_at];
    read_rows<Form>(tile + At::rows(1) + token * Form::kPaddedRows, queries);
#pragma unroll
    for (int i = 0; i < Form::kColumns; ++i) {
      const float change = ptx::multiply(strength, ptx::add(values[i], -changes[i]));
      sums[i] = 0.0f;
#pragma unroll
      for (int r = 0; r < Form::kRows; ++r) {
        state.at[i][r] = ptx::multiply_add(keys[r], change, state.at[i][r]);
        sums[i] = ptx::multiply_add(state.at[i][r], queries[r], sums[i]);
      }
    }
  }
  template <typename Form>
  QUIRE_DEVICE float result(const float*, int, int, const Weights<Form>&, float sum) const {
    return sum;
  }
};

// Moves the warp's columns past kTokens tokens of a tile, from token `first` on, and writes their
// results, which are added up over the lanes for all of these tokens at once. `out` is that of the
// tile's first token.
template <int kTokens, typename Form, typename Scan, typename Weights>
QUIRE_DEVICE void step_tokens(const ScanShape& shape, const Scan& scan, const ScanPlace& place,
                              const float* tile, int first, const Weights& weights,
                              StateColumns<Form>& state, float* out) {
  constexpr int kColumns = Form::kColumns, kSums = kTokens * kColumns;
  float sums[kSums];
#pragma unroll
  for (int token = 0; token < kTokens; ++token) {
    float of_token[kColumns];
    scan.template step<Form>(tile, first + token, weights, state, of_token);
#pragma unroll
    for (int i = 0; i < kColumns; ++i) sums[token * kColumns + i] = of_token[i];
  }
  int at = 0;
  fold_sums<kSums, Form::kLanes / 2>(sums, at);
  constexpr int kOwnSums = std::max(1, kSums / Form::kLanes);
  constexpr int kSameSums = std::max(1, Form::kLanes / kSums);  // lanes that have the same sum
  if (ptx::thread_index() % kSameSums != 0) return;
#pragma unroll
  for (int i = 0; i < kOwnSums; ++i) {
    const int token = first + (at + i) / kColumns;
    const int column = block_column<Form>() + (at + i) % kColumns;
    if (column >= place.num_columns) continue;
    out[int64_t{token} * shape.num_states * shape.num_columns + column] =
        scan.template result<Form>(tile, token, column, weights, sums[i]);
  }
}

template <typename Scan, typename Form>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(Form::kThreads, 512 / Form::kThreads)
    scan_kernel(const ScanShape shape, const Scan scan) {
  using Layout = typename Scan::template Layout<Form>;
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  const int32_t state_and_segment = ptx::block_index() / shape.num_tiles;
  const int32_t segment = state_and_segment / shape.num_states;
  if (continues_chain(shape.segments, segment)) return;
  const int32_t first_column = ptx::block_index() % shape.num_tiles * kBlockColumns;
  const int32_t columns_left = shape.num_columns - first_column;
  const ScanPlace place{.state = state_and_segment % shape.num_states,
                        .first_column = first_column,
                        .num_columns = columns_left < kBlockColumns ? columns_left : kBlockColumns};
  const int64_t column_of_pool = int64_t{place.state} * shape.num_columns + first_column;
  const auto for_own_columns = [&](auto&& f) {
#pragma unroll
    for (int i = 0; i < Form::kColumns; ++i) {
      const int column = block_column<Form>() + i;
      if (column < place.num_columns) f(i, (column_of_pool + column) * shape.num_rows);
    }
  };
  float* const ring = reinterpret_cast<float*>(ptx::shared_memory());
  TileCursor ahead = first_tile(shape.segments, segment);
  const auto fetch_next = [&](int tile_of_ring) {
    if (ahead.has_tile()) {
      scan.template fetch<Form>(shape, place, ahead, ring + tile_of_ring * Layout::kFloats);
      ahead.go_on(shape.segments);
    }
    ptx::copy_async_commit();
  };
#pragma unroll 1
  for (int i = 0; i < kTilesInRing - 1; ++i) fetch_next(i);
  StateColumns<Form> state = {};
  if (const float* before = state_before(shape.segments, shape.state, segment); before != nullptr)
    for_own_columns(
        [&](int i, int64_t at) { load_column<Form>(before + at, shape.num_rows, state.at[i]); });
  const auto weights = scan.template weights<Form>(shape, place);
  const int warp_column = ptx::thread_index() / 32 * (32 / Form::kLanes) * Form::kColumns;
  int in_ring = 0;
#pragma unroll 1
  for (TileCursor tile = first_tile(shape.segments, segment); tile.has_tile();
       tile.go_on(shape.segments)) {
    ptx::copy_async_wait<kTilesInRing - 2>();
    ptx::sync_threads();
    // All threads have read the tile before this one.
    fetch_next((in_ring + kTilesInRing - 1) % kTilesInRing);
    const float* const inputs = ring + in_ring * Layout::kFloats;
    in_ring = (in_ring + 1) % kTilesInRing;
    float* const out =
        scan.out + int64_t{tile.begin} * shape.num_states * shape.num_columns + column_of_pool;
    if (warp_column >= place.num_columns) continue;
    if (tile.num_tokens() == kTileTokens) {
      step_tokens<kTileTokens>(shape, scan, place, inputs, 0, weights, state, out);
    } else {
#pragma unroll 1
      for (int token = 0; token < tile.num_tokens(); ++token)
        step_tokens<1>(shape, scan, place, inputs, token, weights, state, out);
    }
    if (!tile.ends_segment()) continue;
    float* const behind = state_behind(shape.segments, shape.state, tile.segment);
    if (behind != nullptr)
      for_own_columns(
          [&](int i, int64_t at) { save_column<Form>(state.at[i], shape.num_rows, behind + at); });
  }
}

template <typename Form, typename Scan>
void launch_form(Stream& stream, ScanShape shape, const Scan& scan) {
  shape.num_tiles = (shape.num_columns + kBlockColumns - 1) / kBlockColumns;
  const LaunchShape launched{
      .num_blocks = int64_t{shape.segments.num_segments} * shape.num_states * shape.num_tiles,
      .num_threads = Form::kThreads,
      .shared_bytes = int64_t{kTilesInRing} * Scan::template Layout<Form>::kFloats * 4};
  launch<scan_kernel<Scan, Form>>(stream, launched, shape, scan);
}

bool check_scan(const ScanShape& shape) {
  constexpr int kMostRows = 256;
  QUIRE_CHECK(shape.num_rows >= 1 && shape.num_rows <= kMostRows && shape.num_columns >= 1,
              "[states] columns of {} rows, at most {}", shape.num_rows, kMostRows);
  return shape.segments.num_segments > 0;
}

// The form, and with it a token's bits, depends on the number of rows alone.
template <typename Scan>
void launch_scan(Stream& stream, const ScanShape& shape, const Scan& scan) {
  if (!check_scan(shape)) return;
  if (shape.num_rows <= 64) return launch_form<ColumnForm<8, 8, 2>>(stream, shape, scan);
  if (shape.num_rows <= 128) return launch_form<ColumnForm<16, 8, 2>>(stream, shape, scan);
  launch_form<ColumnForm<32, 8, 2>>(stream, shape, scan);
}
void launch_scan(Stream& stream, const ScanShape& shape, const SelectiveScan& scan) {
  if (!check_scan(shape)) return;
  if (shape.num_rows <= 16) return launch_form<ColumnForm<4, 4, 1>>(stream, shape, scan);
  launch_form<ColumnForm<16, 16, 1>>(stream, shape, scan);
}

}  // namespace

void selective_scan(Stream& stream, const SelectiveScanParams& p) {
  launch_scan(stream,
              {.segments = p.segments,
               .state = p.state,
               .num_states = 1,
               .num_columns = static_cast<int32_t>(p.num_channels),
               .num_rows = static_cast<int32_t>(p.num_states)},
              SelectiveScan{.x = p.x,
                            .x_stride = p.x_stride,
                            .delta = p.delta,
                            .b = p.b,
                            .c = p.c,
                            .bc_stride = p.bc_stride,
                            .a = p.a,
                            .d = p.d,
                            .out = p.out});
}

void ssd_scan(Stream& stream, const SsdScanParams& p) {
  launch_scan(stream,
              {.segments = p.segments,
               .state = p.state,
               .num_states = p.num_heads,
               .num_columns = static_cast<int32_t>(p.head_dim),
               .num_rows = static_cast<int32_t>(p.num_states)},
              SsdScan{.x = p.x,
                      .b = p.b,
                      .c = p.c,
                      .x_stride = p.x_stride,
                      .delta = p.delta,
                      .decay = p.decay,
                      .d = p.d,
                      .out = p.out,
                      .heads_per_group = p.num_heads / p.num_groups});
}

void delta_rule(Stream& stream, const DeltaRuleParams& p) {
  const ScanShape shape{.segments = p.segments,
                        .state = p.state,
                        .num_states = p.num_heads,
                        .num_columns = static_cast<int32_t>(p.value_dim),
                        .num_rows = static_cast<int32_t>(p.key_dim)};
  const auto launch_rule = [&](auto rule) {
    rule.q = p.q;
    rule.k = p.k;
    rule.v = p.v;
    rule.qkv_stride = p.qkv_stride;
    rule.decay = p.decay;
    rule.beta = p.beta;
    rule.out = p.out;
    rule.num_key_heads = p.num_key_heads;
    rule.tiled_heads = p.tiled_heads;
    launch_scan(stream, shape, rule);
  };
  if (p.has_channel_decay)
    launch_rule(DeltaRule<true>{});
  else
    launch_rule(DeltaRule<false>{});
}

}  // namespace quire::cuda
