#include "exec/pooling_stage.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "nn/products/product_inputs.h"

namespace quire {
namespace {

// A vector whose norm is below this counts as zero and is not scaled.
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

// The floats that the layers behind the pooling read and write at a time; 0: there are none.
int64_t layer_floats(const DecoderSpec& spec) {
  if (spec.pooling.layers.empty()) return 0;
  int64_t widest = spec.hidden_size;
  for (const PoolingLayerSpec& layer : spec.pooling.layers)
    widest = std::max(widest, layer.num_outputs);
  return DecoderLimits::kMaxPooledRows * widest;
}

}  // namespace

int64_t PoolingStage::memory_bytes(const DecoderSpec& spec, const DecoderLimits& limits) {
  if (!spec.pooling.any()) return 0;
  const int64_t count = layer_floats(spec);
  return 2 * Arena::padded(count * 4) + Arena::padded(count * size_bytes(limits.activation_type));
}

int64_t PoolingStage::num_floats(const DecoderSpec& spec, const DecoderLimits& limits) {
  if (!spec.pooling.any()) return 0;
  return std::max(limits.max_tokens * spec.hidden_size, layer_floats(spec));
}

PoolingStage::PoolingStage(const DecoderSpec& spec, const DecoderLimits& limits, Decoder& decoder,
                           const Place& place)
    : spec_(spec),
      decoder_(decoder),
      stream_(place.stream),
      team_(place.team),
      transfer_(place.transfer),
      buffers_{place.arena.allocate<float>(layer_floats(spec)),
               place.arena.allocate<float>(layer_floats(spec))},
      inputs_(allocate_activations(place.arena, limits.activation_type, layer_floats(spec))) {}

PoolingInfo PoolingStage::info() const {
  const PoolingSpec& pooling = spec_.pooling;
  PoolingInfo info{
      .reads_all_tokens = pooling.kind == PoolingKind::kMean || pooling.kind == PoolingKind::kMax,
      .is_bidirectional = spec_.is_bidirectional()};
  (pooling.classifies ? info.num_labels : info.embedding_size) =
      static_cast<int32_t>(pooling.num_columns);
  return info;
}

void PoolingStage::find_rows(const StepPlan& plan, const InputBatch& batch) {
  rows_.clear();
  int64_t first = 0;
  for (size_t i = 0; i < plan.scheduled.size(); ++i) {
    const ScheduledRequest& scheduled = plan.scheduled[i];
    const RequestState& state = batch.request(i);
    const int32_t end = scheduled.num_computed_tokens + scheduled.num_scheduled_tokens;
    rows_.push_back({.first = first,
                     .tokens = state.token_ids.data() + scheduled.num_computed_tokens,
                     .num_tokens = scheduled.num_scheduled_tokens,
                     .ends = end == state.num_prompt_tokens});
    first += scheduled.num_scheduled_tokens;
  }
}

WorkRange PoolingStage::rows_read(const Rows& rows, const RequestState& state) const {
  const WorkRange all{rows.first, rows.first + rows.num_tokens};
  if (spec_.pooling.step_token || is_per_token(state.pooling->task)) return all;
  if (spec_.pooling.kind == PoolingKind::kCls)
    return {all.begin, state.pooled.empty() ? all.begin + 1 : all.begin};
  if (spec_.pooling.kind == PoolingKind::kLast) return {rows.ends ? all.end - 1 : all.end, all.end};
  return all;
}

Status PoolingStage::run(const StepPlan& plan, const InputBatch& batch,
                         std::vector<RequestStepResult>& results) {
  const auto num_reqs = plan.scheduled.size();
  const auto is_pooled = [&](size_t i) { return batch.request(i).pooling != nullptr; };
  size_t num_pooled = 0;
  for (size_t i = 0; i < num_reqs; ++i) num_pooled += is_pooled(i) ? 1 : 0;
  if (num_pooled == 0) return {};
  find_rows(plan, batch);
  const int64_t size = spec_.hidden_size;
  (void)decoder_.head().final_hidden(batch.num_tokens());
  for (size_t i = 0; i < num_reqs; ++i) {
    if (!is_pooled(i)) continue;
    const WorkRange read = rows_read(rows_[i], batch.request(i));
    transfer_.fetch(decoder_.hidden(), read.begin * size, (read.end - read.begin) * size);
  }
  QUIRE_ASSIGN_OR_RETURN(const float* const hidden, transfer_.fetched(decoder_.hidden()));
  team_.deal(static_cast<int64_t>(num_reqs), 1, team_.size());
  team_.run([&](int thread) {
    for (WorkRange some = team_.take(thread); some.begin < some.end; some = team_.take(thread)) {
      for (auto i = static_cast<size_t>(some.begin); i < static_cast<size_t>(some.end); ++i) {
        RequestState& state = batch.request(i);
        if (state.pooling == nullptr) continue;
        rows_[i].hidden = hidden + rows_[i].first * size;
        pool(rows_[i], *state.pooling, state);
      }
    }
  });
  for (size_t i = 0; i < num_reqs; ++i) {
    if (!is_pooled(i) || !rows_[i].ends) continue;
    RequestState& state = batch.request(i);
    QUIRE_RETURN_IF_ERROR(finish(*state.pooling, state, results[i]));
  }
  return {};
}

// Appends the rows of all tokens to state.pooled, or adds the tokens to what it has accumulated.
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

// Keeps the hidden states of tokens that end a step: all of them, or the last one.
void PoolingStage::pool_steps(const Rows& rows, bool all, std::vector<float>& out) const {
  for (int64_t i = 0; i < rows.num_tokens; ++i) {
    if (rows.tokens[i] != *spec_.pooling.step_token) continue;
    if (!all) out.clear();
    const float* const row = rows.hidden + i * spec_.hidden_size;
    out.insert(out.end(), row, row + spec_.hidden_size);
  }
}

Status PoolingStage::finish(const PoolingParams& params, RequestState& state,
                            RequestStepResult& result) {
  std::vector<float> values = std::move(state.pooled);
  state.pooled = {};
  if (!state.status.ok()) return {};
  if (values.empty()) {  // a text has tokens, but perhaps none that ends a step
    state.status = invalid_argument("the text has no token {}, which ends a step",
                                    spec_.pooling.step_token.value_or(-1));
    result.status = state.status;
    return {};
  }
  QUIRE_RETURN_IF_ERROR(apply_layers(values, std::ssize(values) / spec_.hidden_size));
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
    return {};
  out = {};
  state.status = internal_error("pooling: the model gave a value that is not finite");
  result.status = state.status;
  return {};
}

// Turns rows [R, E] into [R, num_columns].
Status PoolingStage::apply_layers(std::vector<float>& rows, int64_t num_rows) {
  const PoolingSpec& pooling = spec_.pooling;
  if (pooling.layers.empty()) return {};
  std::vector<float> out(static_cast<size_t>(num_rows * pooling.num_columns));
  for (int64_t begin = 0; begin < num_rows; begin += DecoderLimits::kMaxPooledRows) {
    const int64_t count = std::min(DecoderLimits::kMaxPooledRows, num_rows - begin);
    float* on_device = buffers_[0];
    std::copy_n(rows.data() + begin * spec_.hidden_size, count * spec_.hidden_size,
                transfer_.staged(on_device));
    transfer_.send(on_device, count * spec_.hidden_size);
    size_t next = 1;
    for (size_t i = 0; i < pooling.layers.size(); ++i, next = 1 - next) {
      const int64_t size = pooling.layers[i].num_inputs;
      const ProductInputs in = product_inputs(stream_, {on_device, size}, inputs_, count, size);
      decoder_.head().pooling_layer(i, in.x, buffers_[next], count);
      on_device = buffers_[next];
    }
    transfer_.fetch(on_device, 0, count * pooling.layers.back().num_outputs);
    QUIRE_ASSIGN_OR_RETURN(const float* const x, transfer_.fetched(on_device));
    float* const done = out.data() + begin * pooling.num_columns;
    if (pooling.is_difference) {
      for (int64_t row = 0; row < count; ++row) done[row] = x[2 * row] - x[2 * row + 1];
    } else {
      std::copy_n(x, count * pooling.num_columns, done);
    }
  }
  rows = std::move(out);
  return {};
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
