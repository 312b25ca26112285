#include "exec/sources/encoder_stack.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "nn/decoder/decoder_memory.h"

namespace quire {
EncoderStack::EncoderStack(const DecoderSpec& spec, const WeightOptions& options, int32_t max_rows,
                           HostStream& stream, int32_t min_seen)
    : spec_(spec),
      stream_(stream),
      weights_(spec, options),
      limits_({.max_tokens = max_rows,
               .max_reqs = min_seen > 0 ? 1 + max_rows / min_seen : 1,
               .max_seq_len = max_rows,
               .max_logit_rows = 1}),
      source_(std::vector<RawTensor>()) {}

Status EncoderStack::open(TensorSource source, const NameMap& names,
                          const QuantConfig& quantization, WeightPacking& packing) {
  source_ = std::move(source);
  QUIRE_ASSIGN_OR_RETURN(
      plan_, resolve_checkpoint(weights_.slots(), names, quantization, source_, packing));
  return {};
}

int64_t EncoderStack::num_blocks() const { return EncoderKv::blocks_of(limits_.max_tokens); }

EncoderKv EncoderStack::cache() const { return {spec_.layers.front().attention, num_blocks()}; }

int64_t EncoderStack::workspace_bytes() const {
  return decoder_memory(spec_, weights_, limits_, stream_).total() + cache().bytes();
}

Status EncoderStack::load(const LoadOptions& options, int64_t more_bytes) {
  QUIRE_ASSIGN_OR_RETURN(weight_arena_, Arena::create(plan_.arena_bytes()));
  QUIRE_RETURN_IF_ERROR(load_checkpoint(plan_, weight_arena_, options));
  QUIRE_ASSIGN_OR_RETURN(workspace_, Arena::create(workspace_bytes() + more_bytes));
  decoder_ = std::make_unique<Decoder>(spec_, weights_, limits_, stream_, workspace_);
  decoder_->bind_cache(std::vector<LayerCache>(
      spec_.layers.size(), LayerCache{.view = cache().place(workspace_), .group = 0}));
  const auto max_rows = static_cast<size_t>(limits_.max_tokens);
  zeros_.assign(max_rows, 0);
  axis_positions_.assign(3 * max_rows, 0);
  sequence_.resize(max_rows);
  std::iota(sequence_.begin(), sequence_.end(), 0);
  slots_.resize(max_rows);
  std::iota(slots_.begin(), slots_.end(), 0);
  for (int64_t run = 0; run < limits_.max_reqs; ++run) {
    for (int32_t block = 0; block < num_blocks(); ++block) block_table_.push_back(block);
  }
  return {};
}

const float* EncoderStack::run_rows(const EncoderRows& rows) { return run(zeros_.data(), rows); }

const float* EncoderStack::run_tokens(const TokenId* token_ids, int32_t count) {
  return run(token_ids, {.count = count});
}

// A run must not have more rows than it attends to, because attention without a causal mask
// requires that.
void EncoderStack::cut_runs(const EncoderRows& rows, KvGroupInputs& group) {
  run_starts_ = {0, rows.num_seen};
  run_lens_ = {rows.count};
  while (run_starts_.back() < rows.count) {
    run_starts_.push_back(std::min(rows.count, run_starts_.back() + rows.num_seen));
    run_lens_.push_back(rows.num_seen);
  }
  QUIRE_CHECK(std::ssize(run_lens_) <= limits_.max_reqs, "{} runs of rows", run_lens_.size());
  group.num_windows = static_cast<int32_t>(run_lens_.size());
  group.window_start_loc = run_starts_.data();
  group.window_lens = run_lens_.data();
}

const float* EncoderStack::run(const TokenId* token_ids, const EncoderRows& rows) {
  const int32_t count = rows.count;
  const GivenRows given{.first = 0, .count = count, .rows = rows.rows};
  KvGroupInputs group{.slot_mapping = slots_.data(),
                      .block_table = block_table_.data(),
                      .max_blocks = num_blocks()};
  if (rows.num_seen > 0) cut_runs(rows, group);
  const int32_t bounds[2] = {0, count};
  decoder_->forward({.num_tokens = count,
                     .num_reqs = 1,
                     .input_ids = token_ids,
                     .positions = sequence_.data(),
                     .axis_positions = axis_positions_.data(),
                     .query_start_loc = bounds,
                     .seq_lens = &count,
                     .max_query_len = count,
                     .groups = {&group, 1},
                     .given_rows = {&given, rows.rows == nullptr ? size_t{0} : size_t{1}},
                     .taps = rows.taps});
  return decoder_->head().final_hidden(count);
}

}  // namespace quire
