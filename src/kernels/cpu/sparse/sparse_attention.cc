// Copies the latents that each token has chosen to a small cache, in the order of the attention
// kernels, where each token is a request of its own.
#include "kernels/api/sparse_attention.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/sparse/batch_tokens.h"

namespace quire {
namespace {

constexpr int32_t kCopyBlock = 16;  // tokens of a block of the copy
constexpr int64_t kCopiesPerThread = 2;

// The size of a group of tokens, and the layout of its workspace.
struct CopyLayout {
  int64_t rows;        // tokens of a group
  int64_t row_blocks;  // blocks of a token's copy
  int64_t block_bytes;
  int64_t starts, lens, table, attention, bytes;

  CopyLayout(const Stream& stream, DType cache, int32_t num_heads, int32_t head_dim, int32_t top_k)
      : rows(kCopiesPerThread * cpu::host(stream).team().size()),
        row_blocks((int64_t{top_k} + kCopyBlock - 1) / kCopyBlock),
        block_bytes(cpu::round_up(kv_half_block_bytes(cache, 1, head_dim, kCopyBlock), 64)) {
    const auto take = [this](int64_t n) {
      const int64_t at = bytes;
      bytes = cpu::round_up(bytes + n, 64);
      return at;
    };
    constexpr int64_t kInt = sizeof(int32_t);
    bytes = rows * row_blocks * block_bytes;
    starts = take((rows + 1) * kInt);
    lens = take(rows * kInt);
    table = take(rows * row_blocks * kInt);
    attention = bytes;
    bytes += cpu::paged_attention_workspace_bytes(stream, rows, rows, top_k, num_heads, head_dim);
  }
};

// Transposes 16 rows of a token-major cache to one block in the CPU's order: word i of row j goes
// to [i][j]. Rows that are null become zeros.
template <typename Word>
void turn_rows(const uint8_t* const (&rows)[kCopyBlock], int64_t num_words, uint8_t* block) {
  for (int64_t i = 0; i < num_words; ++i) {
    Word words[kCopyBlock];
    for (int32_t j = 0; j < kCopyBlock; ++j) {
      words[j] = 0;
      if (rows[j] != nullptr) std::memcpy(&words[j], rows[j] + i * sizeof(Word), sizeof(Word));
    }
    std::memcpy(block + i * static_cast<int64_t>(sizeof words), words, sizeof words);
  }
}

// Copies one block of a token's copy: up to 16 of its chosen positions.
void copy_block(const KvCacheView& kv, const int32_t* block_table, const int32_t* chosen,
                int32_t count, const KvCacheView& copy, int64_t copy_block) {
  const int64_t bytes = size_bytes(kv.dtype);
  const uint8_t* rows[kCopyBlock] = {};
  for (int32_t j = 0; j < count; ++j) {
    const int64_t block = block_table[chosen[j] / kv.block_size];
    const int64_t offset = chosen[j] % kv.block_size;
    rows[j] = static_cast<const uint8_t*>(kv.key) + key_index(kv, block, 0, offset, 0) * bytes;
    if (!has_token_scales(kv.dtype)) continue;
    static_cast<bfloat16*>(copy.key)[token_scale_index(copy, copy_block, 0, j)] =
        static_cast<const bfloat16*>(kv.key)[token_scale_index(kv, block, 0, offset)];
  }
  auto* to = static_cast<uint8_t*>(copy.key) + copy_block * copy.block_stride * bytes;
  const int64_t row_bytes = kv.head_dim * bytes;
  if ((is_in_pairs(kv.dtype) ? 2 : 1) * bytes == 2)
    turn_rows<uint16_t>(rows, row_bytes / 2, to);
  else
    turn_rows<uint32_t>(rows, row_bytes / 4, to);
}

// Copies and attends runs of the batch's tokens.
class CopiedTokens {
 public:
  CopiedTokens(const HostStream& stream, const SparseAttentionParams& params,
               const CopyLayout& layout)
      : stream_(stream),
        p_(params),
        layout_(layout),
        base_(static_cast<uint8_t*>(params.attention.workspace)),
        copy_(params.attention.kv) {
    copy_.key = base_;
    copy_.block_stride = layout.block_bytes / size_bytes(copy_.dtype);
    copy_.block_size = kCopyBlock;
    copy_.order = KvOrder::kCpu;
    for (int64_t i = 0; i < layout.rows * layout.row_blocks; ++i)
      ints(layout.table)[i] = static_cast<int32_t>(i);
    for (int64_t i = 0; i <= layout.rows; ++i) ints(layout.starts)[i] = static_cast<int32_t>(i);
  }

  void run(Stream& stream, int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      ints(layout_.lens)[i] = num_chosen(token(first + i).position, p_.top_k);
    copy(first, count);
    PagedAttentionParams attention = p_.attention;
    attention.query = attention.query + first * attention.query_stride;
    attention.out = attention.out + first * attention.num_heads * int64_t{attention.kv.latent_dim};
    attention.kv = copy_;
    attention.query_start_loc = ints(layout_.starts);
    attention.seq_lens = ints(layout_.lens);
    attention.block_table = ints(layout_.table);
    attention.max_blocks = layout_.row_blocks;
    attention.num_reqs = static_cast<int32_t>(count);
    attention.workspace = base_ + layout_.attention;
    attention.max_query_len = 1;
    cpu::paged_attention(stream, attention);
  }

 private:
  int32_t* ints(int64_t at) const { return reinterpret_cast<int32_t*>(base_ + at); }

  cpu::BatchToken token(int64_t index) const {
    return cpu::batch_token(p_.attention.query_start_loc, p_.attention.seq_lens,
                            p_.attention.num_reqs, index);
  }

  // Copies the blocks of a run.
  void copy(int64_t first, int64_t count) const {
    const int32_t* lens = ints(layout_.lens);
    const int64_t work = std::accumulate(lens, lens + count, int64_t{0}) * copy_.head_dim;
    cpu::for_each_unit(stream_, count * layout_.row_blocks, work, [&](int, int64_t unit) {
      const int64_t row = unit / layout_.row_blocks;
      const int64_t at = unit % layout_.row_blocks * kCopyBlock;
      const int64_t left = lens[row] - at;
      if (left <= 0) return;
      const int64_t request = token(first + row).request;
      copy_block(p_.attention.kv, p_.attention.block_table + request * p_.attention.max_blocks,
                 p_.chosen + (first + row) * p_.top_k + at,
                 static_cast<int32_t>(std::min<int64_t>(left, kCopyBlock)), copy_, unit);
    });
  }

  const HostStream& stream_;
  const SparseAttentionParams& p_;
  const CopyLayout& layout_;
  uint8_t* base_;
  KvCacheView copy_;
};

}  // namespace

void cpu::sparse_attention(Stream& stream, const SparseAttentionParams& params) {
  const PagedAttentionParams& attention = params.attention;
  QUIRE_DCHECK(attention.kv.is_latent() && attention.kv.order == KvOrder::kTokenMajor &&
                   attention.causal && attention.sliding_window == 0 &&
                   attention.seen_ends == nullptr && attention.workspace != nullptr,
               "[sparse_attention] expected causal attention to latents by token, without windows, "
               "and a workspace, got latents of {}, causal {}, window {}, ends {}",
               attention.kv.latent_dim, attention.causal, attention.sliding_window,
               attention.seen_ends != nullptr);
  // Biases depend on positions in the context, which the copies of chosen tokens do not keep.
  QUIRE_DCHECK(attention.alibi_slopes == nullptr && attention.position_bias == nullptr &&
                   attention.sinks == nullptr,
               "[sparse_attention] expected no biases or sinks, got ALiBi {}, position biases {}, "
               "sinks {}",
               attention.alibi_slopes != nullptr, attention.position_bias != nullptr,
               attention.sinks != nullptr);
  const CopyLayout layout(stream, attention.kv.dtype, attention.num_heads, attention.kv.head_dim,
                          params.top_k);
  CopiedTokens tokens(cpu::host(stream), params, layout);
  const int64_t num_tokens = attention.query_start_loc[attention.num_reqs];
  for (int64_t first = 0; first < num_tokens; first += layout.rows)
    tokens.run(stream, first, std::min(layout.rows, num_tokens - first));
}

int64_t cpu::sparse_attention_workspace_bytes(const Stream& stream, DType cache, int32_t num_heads,
                                              int32_t head_dim, int32_t top_k) {
  return CopyLayout(stream, cache, num_heads, head_dim, top_k).bytes;
}

}  // namespace quire
