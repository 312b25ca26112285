#include "exec/pooling_stage.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace quire {
namespace {

// Below it a vector counts as zero and stays as it is.
constexpr double kLeastNorm = 1e-12;

void normalize(std::span<float> row) {
  double sum = 0.0;
  for (const float x : row) sum += double{x} * x;
  const auto scale = static_cast<float>(1.0 / std::max(std::sqrt(sum), kLeastNorm));
  for (float& x : row) x *= scale;
}

void softmax(std::span<float> row) {
  const float greatest = *std::max_element(row.begin(), row.end());
  double sum = 0.0;
  for (const float x : row) sum += std::exp(double{x} - greatest);
  for (float& x : row) x = static_cast<float>(std::exp(double{x} - greatest) / sum);
}

int64_t widest_row(const DecoderSpec& spec) {
  int64_t widest = spec.hidden_size;
  for (const PoolingLayerSpec& layer : spec.pooling.layers)
    widest = std::max(widest, layer.num_outputs);
  return widest;
}

}  // namespace

PoolingStage::PoolingStage(const DecoderSpec& spec, Decoder& decoder, ThreadTeam& team)
    : spec_(spec), decoder_(decoder), team_(team) {
  const int64_t size = DecoderLimits::kMaxPooledRows * widest_row(spec);
  for (std::vector<float>& buffer : buffers_) buffer.resize(static_cast<size_t>(size));
}

PoolingInfo PoolingStage::info() const {
  const PoolingSpec& pooling = spec_.pooling;
  PoolingInfo info{
      .reads_all_tokens = pooling.kind == PoolingKind::kMean || pooling.kind == PoolingKind::kMax,
      .is_bidirectional = spec_.is_bidirectional()};
  (pooling.classifies ? info.num_labels : info.embedding_size) =
      static_cast<int32_t>(pooling.num_columns);
  return info;
}

void PoolingStage::run(const InputBatch& batch, std::vector<RequestStepResult>& results) {
  const auto num_reqs = static_cast<size_t>(batch.num_reqs());
  const auto is_pooled = [&](size_t i) { return batch.request(i).pooling != nullptr; };
  size_t num_pooled = 0;
  for (size_t i = 0; i < num_reqs; ++i) num_pooled += is_pooled(i) ? 1 : 0;
  if (num_pooled == 0) return;
  const float* hidden = decoder_.head().final_hidden(batch.num_tokens());
  const ForwardInputs inputs = batch.inputs();
  team_.deal(static_cast<int64_t>(num_reqs), 1, team_.size());
  team_.run([&](int thread) {
    for (WorkRange some = team_.take(thread); some.begin < some.end; some = team_.take(thread)) {
      for (int64_t i = some.begin; i < some.end; ++i) {
        RequestState& state = batch.request(static_cast<size_t>(i));
        if (state.pooling == nullptr) continue;
        const int64_t first = inputs.query_start_loc[i];
        pool({.hidden = hidden + first * spec_.hidden_size,
              .tokens = inputs.input_ids + first,
              .num_tokens = inputs.query_start_loc[i + 1] - first,
              .ends = inputs.seq_lens[i] == state.num_prompt_tokens},
             *state.pooling, state);
      }
    }
  });
  for (size_t i = 0; i < num_reqs; ++i) {
    RequestState& state = batch.request(i);
    if (!is_pooled(i) || inputs.seq_lens[i] != state.num_prompt_tokens) continue;
    finish(*state.pooling, state, results[i]);
  }
}

// Into state.pooled: rows of all tokens, or what the tokens so far have come to.
void PoolingStage::pool(const Rows& rows, const PoolingParams& params, RequestState& state) const {
  const int64_t size = spec_.hidden_size;
  std::vector<float>& out = state.pooled;
  const float* end = rows.hidden + rows.num_tokens * size;
  if (spec_.pooling.step_token) return pool_steps(rows, is_per_token(params.task), out);
  if (is_per_token(params.task)) {
    out.insert(out.end(), rows.hidden, end);
    return;
  }
  const bool begins = out.empty();
  switch (spec_.pooling.kind) {
    case PoolingKind::kCls:
      if (begins) out.assign(rows.hidden, rows.hidden + size);
      return;
    case PoolingKind::kLast:
      if (rows.ends) out.assign(end - size, end);
      return;
    case PoolingKind::kMean:
    case PoolingKind::kMax:
      break;
  }
  const float* row = rows.hidden;
  if (begins) {
    out.assign(row, row + size);
    row += size;
  }
  const bool is_mean = spec_.pooling.kind == PoolingKind::kMean;
  for (; row != end; row += size) {
    for (int64_t i = 0; i < size; ++i) {
      float& x = out[static_cast<size_t>(i)];
      x = is_mean ? x + row[i] : std::max(x, row[i]);
    }
  }
  if (!is_mean || !rows.ends) return;
  const auto count = static_cast<float>(state.num_prompt_tokens);
  for (float& x : out) x /= count;
}

// Of tokens that end a step: all, or the last.
void PoolingStage::pool_steps(const Rows& rows, bool all, std::vector<float>& out) const {
  for (int64_t i = 0; i < rows.num_tokens; ++i) {
    if (rows.tokens[i] != *spec_.pooling.step_token) continue;
    if (!all) out.clear();
    const float* const row = rows.hidden + i * spec_.hidden_size;
    out.insert(out.end(), row, row + spec_.hidden_size);
  }
}

void PoolingStage::finish(const PoolingParams& params, RequestState& state,
                          RequestStepResult& result) {
  std::vector<float> values = std::move(state.pooled);
  state.pooled = {};
  if (!state.status.ok()) return;
  if (values.empty()) {  // a text always has a token, but not always one that ends a step
    state.status = invalid_argument("the text has no token {}, which ends a step",
                                    spec_.pooling.step_token.value_or(-1));
    result.status = state.status;
    return;
  }
  apply_layers(values, std::ssize(values) / spec_.hidden_size);
  const auto columns = static_cast<size_t>(spec_.pooling.num_columns);
  const size_t kept = params.dimensions > 0 && !spec_.pooling.classifies
                          ? std::min(columns, static_cast<size_t>(params.dimensions))
                          : columns;
  PooledOutput& out = result.pooled;
  out.num_columns = static_cast<int32_t>(kept);
  for (size_t begin = 0; begin < values.size(); begin += columns) {
    const std::span<float> row(values.data() + begin, kept);
    activate(params, row);
    out.values.insert(out.values.end(), row.begin(), row.end());
  }
  if (std::all_of(out.values.begin(), out.values.end(), [](float x) { return std::isfinite(x); }))
    return;
  out = {};
  state.status = internal_error("pooling: the model gave a value that is not finite");
  result.status = state.status;
}

// Rows [R, E] become [R, num_columns].
void PoolingStage::apply_layers(std::vector<float>& rows, int64_t num_rows) {
  const PoolingSpec& pooling = spec_.pooling;
  if (pooling.layers.empty()) return;
  std::vector<float> out(static_cast<size_t>(num_rows * pooling.num_columns));
  for (int64_t begin = 0; begin < num_rows; begin += DecoderLimits::kMaxPooledRows) {
    const int64_t count = std::min(DecoderLimits::kMaxPooledRows, num_rows - begin);
    const float* x = rows.data() + begin * spec_.hidden_size;
    size_t next = 0;
    for (size_t i = 0; i < pooling.layers.size(); ++i, next = 1 - next) {
      float* y = buffers_[next].data();
      decoder_.head().pooling_layer(i, x, y, count);
      x = y;
    }
    float* const done = out.data() + begin * pooling.num_columns;
    if (pooling.is_difference) {
      for (int64_t row = 0; row < count; ++row) done[row] = x[2 * row] - x[2 * row + 1];
    } else {
      std::copy_n(x, count * pooling.num_columns, done);
    }
  }
  rows = std::move(out);
}

void PoolingStage::activate(const PoolingParams& params, std::span<float> row) const {
  const PoolingSpec& pooling = spec_.pooling;
  if (!params.use_activation) return;
  if (!pooling.classifies) {
    if (pooling.normalizes) normalize(row);
    return;
  }
  if (pooling.activation == ScoreActivation::kSoftmax) softmax(row);
  if (pooling.activation != ScoreActivation::kSigmoid) return;
  for (float& x : row) x = static_cast<float>(1.0 / (1.0 + std::exp(-double{x})));
}

}  // namespace quire
