// The recurrences of states: selective_scan(), ssd_scan() and delta_rule(). Each moves the columns of
// a state past one token after the other, in one order of arithmetic, so that a token's bits do not
// depend on where its sequence is cut into steps and snapshots (law L4; decision 022).
#include <cmath>
#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/states/state_columns.h"

namespace quire::cuda {
namespace {

// What all recurrences have in common. State h has `num_columns` columns of `num_rows` rows.
struct ScanShape {
  StateSegments segments;
  StateView state;
  int32_t num_states = 1;
  int32_t num_columns = 0;
  int32_t num_rows = 0;
  int32_t num_tiles = 0;  // of kBlockColumns columns of a state
};

// Where a thread works.
struct ScanPlace {
  int32_t state = 0;
  int32_t column = 0;   // of a thread without a column the last one, which it does not write
  bool writes = false;  // it is the first lane of its column
};

// Tokens whose inputs are on their way, as many as registers have room for.
constexpr int tokens_ahead(int rows) { return rows <= 8 ? 4 : rows <= 16 ? 2 : 0; }

// Mamba: the columns are channels, the rows states of a channel.
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

  template <int kRows>
  struct Token {
    float value;
    float delta;
    float b[kRows];
    float c[kRows];
  };
  template <int kRows>
  QUIRE_DEVICE Token<kRows> fetch(const ScanShape& shape, const ScanPlace& place, int64_t t) const {
    Token<kRows> token = {};
    token.value = x[t * x_stride + place.column];
    token.delta = delta[t * shape.num_columns + place.column];
    for_each_row<kRows>(shape.num_rows, [&](int32_t row, int r) {
      token.b[r] = b[t * bc_stride + row];
      token.c[r] = c[t * bc_stride + row];
    });
    return token;
  }
  template <int kRows>
  QUIRE_DEVICE void step(const ScanShape& shape, const ScanPlace& place, int64_t t,
                         const Token<kRows>& token, StateColumn<kRows>& column) const {
    const float moved = ptx::multiply(token.delta, token.value);
    const float* rates = a + int64_t{place.column} * shape.num_rows;
    float sum = 0.0f;
    for_each_row<kRows>(shape.num_rows, [&](int32_t row, int r) {
      const float decay = expf(ptx::multiply(token.delta, rates[row]));
      column.at[r] = ptx::multiply_add(decay, column.at[r], ptx::multiply(moved, token.b[r]));
      sum = ptx::multiply_add(token.c[r], column.at[r], sum);
    });
    const float y = ptx::multiply_add(d[place.column], token.value, column_sum(sum));
    if (place.writes) out[t * shape.num_columns + place.column] = y;
  }
};

// Mamba-2: a state per head, its columns the dims of the head.
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

  template <int kRows>
  struct Token {
    float value;
    float delta;
    float decay;
    float b[kRows];
    float c[kRows];
  };
  template <int kRows>
  QUIRE_DEVICE Token<kRows> fetch(const ScanShape& shape, const ScanPlace& place, int64_t t) const {
    const int64_t head = t * shape.num_states + place.state;
    const int64_t group = t * x_stride + int64_t{place.state / heads_per_group} * shape.num_rows;
    Token<kRows> token = {};
    token.value = x[t * x_stride + int64_t{place.state} * shape.num_columns + place.column];
    token.delta = delta[head];
    token.decay = decay[head];
    for_each_row<kRows>(shape.num_rows, [&](int32_t row, int r) {
      token.b[r] = b[group + row];
      token.c[r] = c[group + row];
    });
    return token;
  }
  template <int kRows>
  QUIRE_DEVICE void step(const ScanShape& shape, const ScanPlace& place, int64_t t,
                         const Token<kRows>& token, StateColumn<kRows>& column) const {
    const float moved = ptx::multiply(token.delta, token.value);
    float sum = 0.0f;
    for_each_row<kRows>(shape.num_rows, [&](int32_t, int r) {
      column.at[r] = ptx::multiply_add(token.decay, column.at[r], ptx::multiply(token.b[r], moved));
      sum = ptx::multiply_add(column.at[r], token.c[r], sum);
    });
    const float y = ptx::multiply_add(d[place.state], token.value, column_sum(sum));
    if (place.writes)
      out[(t * shape.num_states + place.state) * shape.num_columns + place.column] = y;
  }
};

// Gated DeltaNet and Kimi Delta Attention: a state per head, its rows the dims of keys.
struct DeltaRule {
  const float* q;
  const float* k;
  const float* v;
  int64_t qkv_stride;
  const float* decay;
  bool has_channel_decay;
  const float* beta;
  float* out;
  int32_t num_key_heads;
  bool tiled_heads;

  // Where the token's keys and queries of the state begin.
  QUIRE_DEVICE int64_t key_of(const ScanShape& shape, const ScanPlace& place, int64_t t) const {
    const int32_t key_head = tiled_heads ? place.state % num_key_heads
                                         : place.state / (shape.num_states / num_key_heads);
    return t * qkv_stride + int64_t{key_head} * shape.num_rows;
  }
  template <int kRows>
  struct Token {
    float value;
    float beta;
    float decay[kRows];
    float k[kRows];
    float q[tokens_ahead(kRows) > 0 ? kRows : 1];  // where registers have room for it
  };
  template <int kRows>
  QUIRE_DEVICE Token<kRows> fetch(const ScanShape& shape, const ScanPlace& place, int64_t t) const {
    const int64_t head = t * shape.num_states + place.state;
    const int64_t key = key_of(shape, place, t);
    Token<kRows> token = {};
    token.value = v[t * qkv_stride + int64_t{place.state} * shape.num_columns + place.column];
    token.beta = beta[head];
    for_each_row<kRows>(shape.num_rows, [&](int32_t row, int r) {
      token.decay[r] = has_channel_decay ? decay[head * shape.num_rows + row] : decay[head];
      token.k[r] = k[key + row];
      if constexpr (tokens_ahead(kRows) > 0) token.q[r] = q[key + row];
    });
    return token;
  }
  template <int kRows>
  QUIRE_DEVICE void step(const ScanShape& shape, const ScanPlace& place, int64_t t,
                         const Token<kRows>& token, StateColumn<kRows>& column) const {
    float memory = 0.0f;
    for_each_row<kRows>(shape.num_rows, [&](int32_t, int r) {
      column.at[r] = ptx::multiply(token.decay[r], column.at[r]);
      memory = ptx::multiply_add(column.at[r], token.k[r], memory);
    });
    const float change = ptx::multiply(token.beta, ptx::add(token.value, -column_sum(memory)));
    const int64_t key = key_of(shape, place, t);
    float sum = 0.0f;
    for_each_row<kRows>(shape.num_rows, [&](int32_t row, int r) {
      column.at[r] = ptx::multiply_add(token.k[r], change, column.at[r]);
      float query = 0.0f;
      if constexpr (tokens_ahead(kRows) > 0)
        query = token.q[r];
      else
        query = q[key + row];
      sum = ptx::multiply_add(column.at[r], query, sum);
    });
    const float y = column_sum(sum);
    if (place.writes)
      out[(t * shape.num_states + place.state) * shape.num_columns + place.column] = y;
  }
};

template <typename Scan, int kRows>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kStateThreads, 1)
    scan_kernel(const ScanShape shape, const Scan scan) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  const int32_t tile = ptx::block_index() % shape.num_tiles;
  const int32_t state_and_segment = ptx::block_index() / shape.num_tiles;
  const int32_t wanted = tile * kBlockColumns + ptx::thread_index() / kStateLanes;
  const bool has_column = wanted < shape.num_columns;
  const ScanPlace place{.state = state_and_segment % shape.num_states,
                        .column = has_column ? wanted : shape.num_columns - 1,
                        .writes = has_column && state_lane() == 0};
  const int64_t at = (int64_t{place.state} * shape.num_columns + place.column) * shape.num_rows;
  StateColumn<kRows> column;
  run_chain(
      shape.segments, shape.state, state_and_segment / shape.num_states,
      [&](const float* state) {
        load_column(state == nullptr ? nullptr : state + at, shape.num_rows, column);
      },
      [&](int32_t begin, int32_t end) {
        run_tokens<tokens_ahead(kRows)>(
            begin, end, [&](int64_t t) { return scan.template fetch<kRows>(shape, place, t); },
            [&](int64_t t, const typename Scan::template Token<kRows>& token) {
              scan.template step<kRows>(shape, place, t, token, column);
            });
      },
      [&](float* state) {
        if (has_column) save_column(column, shape.num_rows, state + at);
      });
}

template <typename Scan>
void launch_scan(Stream& stream, ScanShape shape, const Scan& scan) {
  if (shape.segments.num_segments == 0) return;
  QUIRE_CHECK(shape.num_rows >= 1 && shape.num_rows <= 32 * kStateLanes && shape.num_columns >= 1,
              "[states] columns of {} rows, at most {}", shape.num_rows, 32 * kStateLanes);
  shape.num_tiles = (shape.num_columns + kBlockColumns - 1) / kBlockColumns;
  const LaunchShape launched{
      .num_blocks = int64_t{shape.segments.num_segments} * shape.num_states * shape.num_tiles,
      .num_threads = kStateThreads};
  const int32_t rows = (shape.num_rows + kStateLanes - 1) / kStateLanes;  // of a lane
  if (rows <= 2) return launch<scan_kernel<Scan, 2>>(stream, launched, shape, scan);
  if (rows <= 8) return launch<scan_kernel<Scan, 8>>(stream, launched, shape, scan);
  if (rows <= 16) return launch<scan_kernel<Scan, 16>>(stream, launched, shape, scan);
  launch<scan_kernel<Scan, 32>>(stream, launched, shape, scan);
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
  launch_scan(stream,
              {.segments = p.segments,
               .state = p.state,
               .num_states = p.num_heads,
               .num_columns = static_cast<int32_t>(p.value_dim),
               .num_rows = static_cast<int32_t>(p.key_dim)},
              DeltaRule{.q = p.q,
                        .k = p.k,
                        .v = p.v,
                        .qkv_stride = p.qkv_stride,
                        .decay = p.decay,
                        .has_channel_decay = p.has_channel_decay,
                        .beta = p.beta,
                        .out = p.out,
                        .num_key_heads = p.num_key_heads,
                        .tiled_heads = p.tiled_heads});
}

}  // namespace quire::cuda
