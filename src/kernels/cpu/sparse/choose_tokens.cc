// Scores every token that a query sees and chooses the best. The rows of a batch are taken in
// groups, whose scores are computed in pieces and then cut at the k-th greatest.
#include <algorithm>
#include <bit>
#include <numeric>

#include "base/float8.h"
#include "kernels/api/sparse_attention.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/sparse/batch_tokens.h"
#include "kernels/cpu/sparse/index_kernels.h"

namespace quire {
namespace {

using cpu::BatchToken;

// The positions that one thread scores at a time, and those whose keys it converts to floats at a
// time.
constexpr int32_t kScoresAtOnce = 512;
constexpr int32_t kKeysAtOnce = 32;
constexpr int64_t kChoicesPerThread = 4;

int64_t padded_heads(int32_t num_heads) { return cpu::round_up(num_heads, 16); }

// The size of a group of rows, and the layout of its workspace.
struct ChoiceLayout {
  int64_t rows;   // rows of a group
  int64_t width;  // scores of a row
  int64_t heads;
  int64_t head_dim;
  int64_t threads;

  ChoiceLayout(const Stream& stream, int64_t max_seq_len, int32_t num_heads, int32_t dim)
      : width(cpu::round_up(max_seq_len, 16)),
        heads(padded_heads(num_heads)),
        head_dim(dim),
        threads(cpu::host(stream).team().size()) {
    rows = kChoicesPerThread * threads;
  }
  int64_t query_floats() const { return heads * (head_dim + 1); }
  int64_t floats() const {
    return rows * (width + query_floats()) + threads * kKeysAtOnce * head_dim;
  }

  float* scores(float* base, int64_t row) const { return base + row * width; }
  // Returns the query [head_dim][heads] of a row, followed by its weights.
  float* query(float* base, int64_t row) const {
    return base + rows * width + row * query_floats();
  }
  float* keys(float* base, int64_t thread) const {
    return base + rows * (width + query_floats()) + thread * kKeysAtOnce * head_dim;
  }
};

BatchToken choosing_token(const ChooseTokensParams& p, int64_t token) {
  return cpu::batch_token(p.query_start_loc, p.seq_lens, p.num_reqs, token);
}

bool has_choice(const ChooseTokensParams& p, const BatchToken& row) {
  return row.position >= p.top_k;
}

// Copies the query and weights of a token, with heads as lanes.
void place_query(const ChooseTokensParams& p, const ChoiceLayout& layout, int64_t token,
                 float* to) {
  const float* query = p.query + token * p.query_stride;
  const float* weights = p.weights + token * p.weights_stride;
  std::fill_n(to, layout.query_floats(), 0.0f);
  for (int64_t head = 0; head < p.num_heads; ++head) {
    for (int64_t d = 0; d < layout.head_dim; ++d)
      to[d * layout.heads + head] = query[head * layout.head_dim + d];
    to[layout.head_dim * layout.heads + head] = weights[head];
  }
}

// Reads the key of a token as floats.
void read_key(const KvCacheView& keys, const cpu::ElementKernels& kernels, int64_t block,
              int64_t offset, float* to) {
  const int64_t at = key_index(keys, block, 0, offset, 0);
  const auto* from = static_cast<const uint8_t*>(keys.key) + at * size_bytes(keys.dtype);
  if (is_fp8(keys.dtype)) {
    const Float8 format = keys.dtype == DType::kF8E4M3 ? Float8::kE4M3 : Float8::kE5M2;
    for (int64_t i = 0; i < keys.head_dim; ++i) to[i] = float8_to_float(format, from[i]);
    return;
  }
  if (keys.dtype == DType::kI8) {
    const float scale =
        to_float(static_cast<const bfloat16*>(keys.key)[token_scale_index(keys, block, 0, offset)]);
    const auto* codes = reinterpret_cast<const int8_t*>(from);
    for (int64_t i = 0; i < keys.head_dim; ++i) to[i] = scale * static_cast<float>(codes[i]);
    return;
  }
  kernels.embed(cpu::storage_of(keys.dtype), from, 1.0f, nullptr, to, keys.head_dim);
}

// Computes the scores of positions [begin, end).
void score_piece(const ChooseTokensParams& p, const ChoiceLayout& layout, const BatchToken& row,
                 Isa isa, int32_t begin, int32_t end, const float* query, float* keys,
                 float* scores) {
  const int32_t* blocks = p.block_table + row.request * p.max_blocks;
  for (int32_t tile = begin; tile < end; tile += kKeysAtOnce) {
    const int32_t count = std::min(kKeysAtOnce, end - tile);
    for (int32_t i = 0; i < count; ++i) {
      read_key(p.keys, cpu::element_kernels(isa), blocks[(tile + i) / p.keys.block_size],
               (tile + i) % p.keys.block_size, keys + i * layout.head_dim);
    }
    cpu::index_kernels(isa).scores({.query = query,
                                    .weights = query + layout.head_dim * layout.heads,
                                    .heads = layout.heads,
                                    .head_dim = layout.head_dim,
                                    .keys = keys,
                                    .num_keys = count,
                                    .scores = scores + tile});
  }
}

// Returns an integer that is larger for larger scores. 0 and -0 are equal.
uint32_t order_of(float score) {
  const auto bits = std::bit_cast<uint32_t>(score + 0.0f);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}

// The k-th greatest of n scores, which is found digit by digit, and how many of the k equal it.
struct ScoreCut {
  uint32_t order = 0;
  int32_t num_equal = 0;
};
ScoreCut find_cut(const float* scores, int32_t n, int32_t k) {
  ScoreCut cut{.order = 0, .num_equal = k};
  uint32_t mask = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    int32_t counts[256] = {};
    for (int32_t i = 0; i < n; ++i) {
      const uint32_t order = order_of(scores[i]);
      if ((order & mask) == cut.order) ++counts[order >> shift & 255u];
    }
    uint32_t digit = 255;
    for (; counts[digit] < cut.num_equal; --digit) cut.num_equal -= counts[digit];
    cut.order |= digit << shift;
    mask |= 255u << shift;
  }
  return cut;
}

void choose_best(const float* scores, int32_t n, int32_t k, int32_t* chosen) {
  ScoreCut cut = find_cut(scores, n, k);
  for (int32_t i = 0; i < n; ++i) {
    const uint32_t order = order_of(scores[i]);
    if (order < cut.order) continue;
    if (order == cut.order && cut.num_equal-- <= 0) continue;
    *chosen++ = i;
  }
}

void choose_group(const HostStream& stream, const ChooseTokensParams& p, const ChoiceLayout& layout,
                  int64_t first, int64_t count) {
  auto* base = static_cast<float*>(p.workspace);
  int64_t pieces = 0;     // pieces of the longest row
  int64_t positions = 0;  // of all rows
  for (int64_t i = 0; i < count; ++i) {
    const BatchToken row = choosing_token(p, first + i);
    positions += row.position + 1;
    if (!has_choice(p, row)) continue;
    pieces = std::max<int64_t>(pieces, row.position / kScoresAtOnce + 1);
    place_query(p, layout, first + i, layout.query(base, i));
  }
  if (pieces > 0) {
    const int64_t work = positions * layout.heads * layout.head_dim;
    cpu::for_each_unit(stream, count * pieces, work, [&](int thread, int64_t unit) {
      const BatchToken row = choosing_token(p, first + unit / pieces);
      const auto begin = static_cast<int32_t>(unit % pieces) * kScoresAtOnce;
      if (!has_choice(p, row) || begin > row.position) return;
      score_piece(p, layout, row, stream.isa(), begin,
                  std::min(begin + kScoresAtOnce, row.position + 1),
                  layout.query(base, unit / pieces), layout.keys(base, thread),
                  layout.scores(base, unit / pieces));
    });
  }
  cpu::for_each_unit(stream, count, positions, [&](int, int64_t i) {
    const BatchToken row = choosing_token(p, first + i);
    int32_t* chosen = p.chosen + (first + i) * p.top_k;
    if (has_choice(p, row)) {
      choose_best(layout.scores(base, i), row.position + 1, p.top_k, chosen);
    } else {
      std::iota(chosen, chosen + row.position + 1, 0);
    }
  });
}

}  // namespace

const cpu::IndexKernels& cpu::index_kernels(Isa isa) {
#ifdef QUIRE_X86_KERNELS
  return by_width(isa, kIndexPortable, kIndexAvx2, kIndexAvx512);
#else
  (void)isa;
  return kIndexPortable;
#endif
}

void cpu::choose_tokens(Stream& stream, const ChooseTokensParams& params) {
  const HostStream& cpu_stream = cpu::host(stream);
  QUIRE_DCHECK(params.keys.order == KvOrder::kTokenMajor && params.keys.num_kv_heads == 1 &&
                   params.top_k > 0 && params.workspace != nullptr,
               "[choose_tokens] expected one head of keys by token, top_k above 0 and a workspace, "
               "got {} heads, top_k {}",
               params.keys.num_kv_heads, params.top_k);
  const int32_t longest =
      params.num_reqs == 0 ? 0
                           : *std::max_element(params.seq_lens, params.seq_lens + params.num_reqs);
  const ChoiceLayout layout(stream, longest, params.num_heads, params.keys.head_dim);
  const int64_t num_tokens = params.query_start_loc[params.num_reqs];
  for (int64_t first = 0; first < num_tokens; first += layout.rows) {
    choose_group(cpu_stream, params, layout, first, std::min(layout.rows, num_tokens - first));
  }
}

int64_t cpu::choose_tokens_workspace_bytes(const Stream& stream, int64_t max_seq_len,
                                           int32_t num_heads, int32_t head_dim) {
  return ChoiceLayout(stream, max_seq_len, num_heads, head_dim).floats() *
         static_cast<int64_t>(sizeof(float));
}

}  // namespace quire
