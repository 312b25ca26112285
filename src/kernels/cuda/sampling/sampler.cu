// sample_rows(): one block per row, without a sort. One pass finds the greatest logit of each
// chunk. Cuts read the row once more, and then only the chunks that may contain the cut. The draw
// reads the chunks that can win.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/sampling/philox.h"
#include "kernels/cuda/sampling/sampler_adjust.h"
#include "kernels/cuda/sampling/sampler_cut.h"

namespace quire::cuda {
namespace {

// --- the draw ---

// Returns standard Gumbel noise from 32 random bits, in double as in sample/gumbel_argmax.cc.
QUIRE_DEVICE double gumbel(uint32_t bits) {
  return -log(-log((static_cast<double>(bits) + 0.5) * 0x1p-32));
}

struct Leader {
  double score;
  int32_t token;
};
QUIRE_DEVICE Leader leader_of(const Leader& a, const Leader& b) {
  const bool b_leads = b.score > a.score || (b.score == a.score && b.token < a.token);
  return b_leads ? b : a;
}

// Lets four neighbouring tokens compete with `leader`. A token can only lead if -log(u) <=
// e^(scaled - best). As -log(u) >= 1 - u, comparing 1 - u first, with a margin for rounding, leaves
// few tokens that need logarithms.
QUIRE_DEVICE void try_four(const LogitsRow& row, const SampleRow& sample, float threshold,
                           int64_t first, Leader& leader) {
  float x[4];
  load_four(row.values, first, row.size, x);
  const PhiloxWords words = philox(sample.seed, static_cast<uint32_t>(sample.position), 0u,
                                   static_cast<uint32_t>(first / 4), 0u);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float scaled = row.scaled(x[i]);
    if (first + i >= row.size || !(scaled >= threshold)) continue;
    const float lead = ptx::add(scaled, -static_cast<float>(leader.score));
    const float reach = ptx::multiply(exp_nonpositive(lead < 0.0f ? lead : 0.0f), 1.0001f);
    if (ptx::multiply(static_cast<float>(~words.at[i]), 0x1p-32f) > reach) continue;
    const Leader mine{static_cast<double>(scaled) + gumbel(words.at[i]),
                      static_cast<int32_t>(first + i)};
    leader = leader_of(leader, mine);
  }
}

QUIRE_DEVICE Leader block_leader(Leader leader, SampleMemory& memory) {
  const int warp = ptx::thread_index() / 32;
  const int lane = ptx::thread_index() % 32;
  const auto fold = [&] {
#pragma unroll
    for (int mask = 16; mask >= 1; mask /= 2) {
      leader = leader_of(
          leader, {ptx::shuffle_xor(leader.score, mask), ptx::shuffle_xor(leader.token, mask)});
    }
  };
  fold();
  if (lane == 0) {
    memory.doubles[warp] = leader.score;
    memory.ints[warp] = leader.token;
  }
  ptx::sync_threads();
  const bool has = lane < ptx::block_threads() / 32;
  leader = {has ? memory.doubles[lane] : -static_cast<double>(ptx::infinity()),
            has ? memory.ints[lane] : INT32_MAX};
  fold();
  ptx::sync_threads();
  return leader;
}

// Returns argmax(scaled + noise) over scaled >= threshold; ties go to the smaller id.
QUIRE_DEVICE int32_t draw(const LogitsRow& row, const SampleRow& sample, SampleMemory& memory) {
  const float threshold = cut_row(row, sample, memory);
  Leader leader{-static_cast<double>(ptx::infinity()), INT32_MAX};
  // Starts with the likeliest token's chunk: with a good leader, few other tokens need a closer
  // look.
  const int64_t likeliest = row_argmax(row, memory) / kChunk * kChunk;
  if (ptx::thread_index() < kChunk / 4 && likeliest + ptx::thread_index() * 4 < row.size)
    try_four(row, sample, threshold, likeliest + ptx::thread_index() * 4, leader);
  leader = block_leader(leader, memory);
  for_each_chunk(row.num_chunks(), [&](int chunk, int64_t first, bool is_inside) {
    if (!is_inside || first >= row.size) return;
    const float top = row.scaled(row.chunk_max[chunk]);
    // Noise of 32 bits cannot make up a greater difference.
    if (!(top >= threshold) || ptx::add(top, -static_cast<float>(leader.score)) < -25.0f) return;
    try_four(row, sample, threshold, first, leader);
  });
  return block_leader(leader, memory).token;
}

// --- logprobs ---

QUIRE_DEVICE double log_total(const LogitsRow& row, SampleMemory& memory) {
  double sum = 0.0;
  LogitsRow unscaled = row;
  unscaled.inverse_temperature = 1.0f;
  // Sums a chunk in the order of the host's vectors: 16 lanes, then halves.
  for_each_chunk(row.num_chunks(), [&](int chunk, int64_t /*first*/, bool is_inside) {
    const int64_t begin = int64_t{chunk} * kChunk + ptx::thread_index() % 16;
    float lane_sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kChunk; i += 16) {
      const bool inside = is_inside && begin + i < row.size;
      const float scaled = inside ? unscaled.scaled(row.values[begin + i]) : -ptx::infinity();
      lane_sum = ptx::add(lane_sum, exp_nonpositive(scaled));
    }
#pragma unroll
    for (int mask = 8; mask >= 1; mask /= 2)
      lane_sum = ptx::add(lane_sum, ptx::shuffle_xor(lane_sum, mask));
    if (ptx::thread_index() % 16 == 0) sum = ptx::add(sum, static_cast<double>(lane_sum));
  });
  const double total =
      block_fold(sum, 0.0, memory.doubles, [](double a, double b) { return ptx::add(a, b); });
  return static_cast<double>(row.max) + log(total);
}

QUIRE_DEVICE int32_t rank_of(const LogitsRow& row, int32_t token, SampleMemory& memory) {
  const float value = row.values[token];
  int32_t before = 0;
  for_each_chunk(row.num_chunks(), [&](int chunk, int64_t first, bool is_inside) {
    if (!is_inside || !(row.chunk_max[chunk] >= value)) return;
    float x[4];
    load_four(row.values, first, row.size, x);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      before += x[i] > value || (x[i] == value && first + i < token) ? 1 : 0;
  });
  return block_add(before, memory.ints) + 1;
}

// Lists the likeliest tokens one after the other. The chunk with the greatest value gives its first
// token of that value, and is then read again for the greatest value that comes after. Overwrites
// row.chunk_max.
QUIRE_DEVICE void list_top(LogitsRow row, int32_t count, double log_total, TokenId* ids,
                           float* logprobs, SampleMemory& memory) {
  float last_value = ptx::infinity();
  int32_t last_token = -1;
  for (int32_t i = 0; i < count && i < row.size; ++i) {
    find_row_max(row, memory);
    int32_t chunk = INT32_MAX;
    for (int c = ptx::thread_index(); c < row.num_chunks(); c += ptx::block_threads()) {
      if (row.chunk_max[c] == row.max && c < chunk) chunk = c;
    }
    chunk = block_min(chunk, memory.ints);
    const int32_t mine = chunk * kChunk + ptx::thread_index();
    const bool has_one = ptx::thread_index() < kChunk && mine < row.size;
    const float value = has_one ? row.values[mine] : -ptx::infinity();
    const bool is_next = has_one && value == row.max && (value < last_value || mine > last_token);
    last_token = block_min(is_next ? mine : INT32_MAX, memory.ints);
    last_value = row.max;
    const bool comes_after = value < last_value || (value == last_value && mine > last_token);
    const float rest = block_max(comes_after ? value : -ptx::infinity(), memory.floats);
    if (ptx::thread_index() == 0) {
      row.chunk_max[chunk] = rest;
      ids[i] = last_token;
      logprobs[i] = static_cast<float>(static_cast<double>(last_value) - log_total);
    }
    ptx::sync_threads();
  }
}

// --- a row ---

struct Choice {
  TokenId token;
  SampleStatus status;
};

QUIRE_DEVICE Choice choose(const SampleRowsParams& p, const SampleRow& sample, uint32_t* written,
                           SampleMemory& memory, LogitsRow& row) {
  const bool adjusts = is_processed(sample) && sample.forced_token < 0;
  float* processed = p.processed + (adjusts ? ptx::block_index() * p.vocab_size : 0);
  const bool all_finite =
      adjusts ? adjust_row(p, sample, processed, written, memory, row) : scan_row(row, memory);
  if (!all_finite) return {-1, SampleStatus::kNotFinite};
  if (sample.forced_token >= 0) return {sample.forced_token, SampleStatus::kOk};
  if (!is_finite(row.max)) return {-1, SampleStatus::kAllForbidden};
  if (sample.inverse_temperature == 0.0f) return {row_argmax(row, memory), SampleStatus::kOk};
  return {draw(row, sample, memory), SampleStatus::kOk};
}

QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kSampleThreads, 1) sample_kernel(const SampleRowsParams p) {
  ptx::wait_for_previous_kernel();
  auto& memory = *reinterpret_cast<SampleMemory*>(ptx::shared_memory());
  const int64_t index = ptx::block_index();
  const SampleRow sample = p.rows[index];
  LogitsRow row;
  row.values = p.logits + index * p.vocab_size;
  row.size = p.vocab_size;
  row.chunk_max = reinterpret_cast<float*>(ptx::shared_memory() + sizeof(SampleMemory));
  row.inverse_temperature = sample.inverse_temperature;
  auto* written = reinterpret_cast<uint32_t*>(row.chunk_max + row.num_chunks());
  const Choice choice = choose(p, sample, written, memory, row);
  SampledToken out{choice.token, choice.status, 0.0f, 0};
  if (choice.status == SampleStatus::kOk && sample.num_logprobs >= 0) {
    const float* logits = p.logits + index * p.vocab_size;
    if (sample.mask_row >= 0) {
      keep_masked_tokens(p, sample, logits, p.processed + index * p.vocab_size, memory, row);
    } else if (row.values != logits) {  // logprobs are those of the model, not of the processed row
      row.values = logits;
      scan_row(row, memory);
    }
    const double total = log_total(row, memory);
    out.logprob = static_cast<float>(static_cast<double>(row.values[choice.token]) - total);
    out.rank = rank_of(row, choice.token, memory);
    list_top(row, sample.num_logprobs, total, p.top_ids + index * p.max_logprobs,
             p.top_logprobs + index * p.max_logprobs, memory);
  }
  if (ptx::thread_index() == 0) p.out[index] = out;
}

QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(256, 1) count_kernel(const CountTokensParams p) {
  ptx::wait_for_previous_kernel();
  const int64_t i = int64_t{ptx::block_index()} * ptx::block_threads() + ptx::thread_index();
  if (i >= p.num_tokens) return;
  const int32_t slot = p.slots == nullptr ? p.slot : p.slots[i];
  const TokenId token = p.token_ids[i * p.token_stride];
  if (slot < 0 || token < 0 || token >= p.vocab_size) return;
  uint32_t* count = p.token_counts + slot * p.vocab_size + token;
  if (p.in_prompt) {
    ptx::atomic_or(count, kInPrompt);
  } else {
    ptx::atomic_add(count, 1u);
  }
}

}  // namespace

int64_t sample_shared_bytes(int64_t vocab_size) {
  const int64_t chunks = (vocab_size + kChunk - 1) / kChunk;
  const int64_t words = (vocab_size + 31) / 32;
  return static_cast<int64_t>(sizeof(SampleMemory)) + (chunks + words) * 4;
}

void sample_rows(Stream& stream, const SampleRowsParams& p) {
  if (p.num_rows == 0) return;
  QUIRE_CHECK(p.vocab_size > 0 && p.vocab_size <= kMaxSampledVocab,
              "[sample_rows] a vocabulary of {} tokens: expected 1 to {}", p.vocab_size,
              kMaxSampledVocab);
  launch<sample_kernel>(stream,
                        {.num_blocks = p.num_rows,
                         .num_threads = kSampleThreads,
                         .shared_bytes = sample_shared_bytes(p.vocab_size)},
                        p);
}

void count_tokens(Stream& stream, const CountTokensParams& p) {
  if (p.num_tokens == 0) return;
  launch<count_kernel>(stream, {.num_blocks = (p.num_tokens + 255) / 256, .num_threads = 256}, p);
}

}  // namespace quire::cuda
