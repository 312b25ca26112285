#include "nn/decoder.h"

#include <algorithm>
#include <utility>

#include "device/gpu_range.h"
#include "kernels/api/activation.h"
#include "kernels/api/attention.h"
#include "kernels/api/embedding.h"
#include "kernels/api/linear.h"
#include "kernels/api/norm.h"

namespace quire {
namespace {

// Every activation buffer once, in the order in which the constructor takes them: a plan and its
// execution.
struct BufferSizes {
  int64_t hidden, normed, block_out, qkv, attention, gate_up, ffn;
  std::vector<int64_t> rope;
  int64_t rope_scratch = 0;
  int64_t element_bytes = 4;  // of all but hidden and rope

  BufferSizes(const DecoderSpec& spec, const DecoderLimits& limits) {
    const int64_t tokens = limits.max_tokens;
    const int64_t mlp_tokens = std::min(tokens, limits.mlp_tokens);
    element_bytes = size_bytes(limits.activation_type);
    hidden = tokens * spec.hidden_size;
    normed = std::max(tokens, limits.max_logit_rows) * spec.hidden_size;
    block_out = spec.sandwich_norms ? hidden : 0;
    qkv = tokens * spec.qkv_rows();
    attention = tokens * spec.q_rows();
    gate_up = mlp_tokens * spec.ffn_size * (spec.gated_mlp ? 2 : 1);
    ffn = spec.gated_mlp ? mlp_tokens * spec.ffn_size : 0;
    for (const RopeSpec& one : spec.ropes) {
      rope.push_back(tokens * (one.rotary_dim / 2));
      rope_scratch = std::max<int64_t>(rope_scratch, one.rotary_dim / 2);
    }
  }

  int64_t bytes() const {
    int64_t sum = Arena::padded(hidden * 4);
    for (const int64_t count : {normed, block_out, qkv, attention, gate_up, ffn})
      sum += Arena::padded(count * element_bytes);
    for (const int64_t count : rope) sum += 2 * Arena::padded(count * 4);
    return sum + Arena::padded(rope_scratch * 8);
  }
};

// The windows of a model's layers, each once, in ascending order.
std::vector<int32_t> windows_of(const DecoderSpec& spec) {
  std::vector<int32_t> windows;
  for (const LayerSpec& layer : spec.layers) windows.push_back(layer.sliding_window);
  std::sort(windows.begin(), windows.end());
  windows.erase(std::unique(windows.begin(), windows.end()), windows.end());
  return windows;
}

}  // namespace

DecoderMemory decoder_memory(const DecoderSpec& spec, const DecoderWeights& weights,
                             const DecoderLimits& limits, const Stream& stream) {
  DecoderMemory memory;
  memory.activations = BufferSizes(spec, limits).bytes();
  memory.linear_workspace = Arena::padded(
      weights.linear_workspace(stream, {.attention = limits.max_tokens,
                                        .mlp = std::min(limits.max_tokens, limits.mlp_tokens),
                                        .head = limits.max_logit_rows}));
  memory.attention_workspace = Arena::padded(
      paged_attention_workspace_bytes(stream, limits.max_tokens, limits.max_reqs,
                                      limits.max_seq_len, spec.num_heads, spec.head_dim));
  memory.attention_workspace += static_cast<int64_t>(windows_of(spec).size()) *
                                Arena::padded(paged_attention_cut_bytes(stream, limits.max_reqs));
  return memory;
}

Decoder::Decoder(const DecoderSpec& spec, const DecoderWeights& weights,
                 const DecoderLimits& limits, Stream& stream, Arena& arena)
    : spec_(spec), weights_(weights), limits_(limits), stream_(stream) {
  const BufferSizes sizes(spec, limits);
  const auto activations = [&](int64_t count) {
    return Activations(arena.allocate_bytes(count * sizes.element_bytes), limits.activation_type);
  };
  hidden_ = arena.allocate<float>(sizes.hidden);
  normed_ = activations(sizes.normed);
  block_out_ = activations(sizes.block_out);
  qkv_ = activations(sizes.qkv);
  attention_ = activations(sizes.attention);
  gate_up_ = activations(sizes.gate_up);
  ffn_ = spec.gated_mlp ? activations(sizes.ffn) : gate_up_;
  for (const int64_t count : sizes.rope) {
    cos_.push_back(arena.allocate<float>(count));
    sin_.push_back(arena.allocate<float>(count));
  }
  rope_scratch_ = arena.allocate<double>(sizes.rope_scratch);
  const std::vector<int32_t> windows = windows_of(spec);
  const int64_t cut_bytes = Arena::padded(paged_attention_cut_bytes(stream, limits.max_reqs));
  for (size_t i = 0; i < windows.size(); ++i) cuts_.push_back(arena.allocate_bytes(cut_bytes));
  for (const LayerSpec& layer : spec.layers) {
    const auto at = std::lower_bound(windows.begin(), windows.end(), layer.sliding_window);
    layer_cut_.push_back(static_cast<size_t>(at - windows.begin()));
  }
  const DecoderMemory memory = decoder_memory(spec, weights, limits, stream);
  attention_workspace_bytes_ =
      memory.attention_workspace - static_cast<int64_t>(windows.size()) * cut_bytes;
  linear_workspace_ = arena.allocate_bytes(memory.linear_workspace);
  attention_workspace_ = arena.allocate_bytes(attention_workspace_bytes_);
}

void Decoder::bind_cache(std::vector<LayerCache> layers) {
  QUIRE_CHECK(layers.size() == spec_.layers.size(), "{} caches for {} layers", layers.size(),
              spec_.layers.size());
  cache_ = std::move(layers);
}

void Decoder::forward(const ForwardInputs& inputs) {
  for (size_t layer = 0; layer < spec_.layers.size(); ++layer) {
    run_piece(inputs, layer);
    attend(inputs, layer);
  }
  run_piece(inputs, spec_.layers.size());
}

void Decoder::run_piece(const ForwardInputs& inputs, size_t piece) {
  QUIRE_CHECK(!cache_.empty(), "forward() before bind_cache()");
  QUIRE_CHECK(inputs.num_tokens >= 1 && inputs.num_tokens <= limits_.max_tokens,
              "{} tokens, at most {}", inputs.num_tokens, limits_.max_tokens);
  if (piece == 0) {
    embed(inputs);
    rope_step(inputs);
  } else {
    const GpuRange range(stream_, "layer end", piece - 1);
    output_block(piece - 1, inputs.num_tokens);
    mlp_block(piece - 1, inputs.num_tokens);
  }
  if (piece < spec_.layers.size()) {
    const GpuRange range(stream_, "layer begin", piece);
    qkv_block(inputs, piece);
  }
}

void Decoder::embed(const ForwardInputs& inputs) {
  const GpuRange range(stream_, "embedding");
  const TableWeight& table = weights_.token_embedding();
  embedding(stream_, {.token_ids = inputs.input_ids,
                      .table = table.data,
                      .packed_table = table.packed ? &*table.packed : nullptr,
                      .positions = inputs.positions,
                      .position_table = weights_.position_embedding().data,
                      .table_dtype = table.dtype,
                      .scale = spec_.embedding_scale,
                      .out = hidden_,
                      .num_tokens = inputs.num_tokens,
                      .hidden_size = spec_.hidden_size});
}

void Decoder::rope_step(const ForwardInputs& inputs) {
  for (size_t i = 0; i < spec_.ropes.size(); ++i) {
    rope_tables(stream_, spec_.ropes[i], inputs.positions, inputs.num_tokens, cos_[i], sin_[i],
                rope_scratch_);
  }
}

void Decoder::qkv_block(const ForwardInputs& inputs, size_t index) {
  const LayerSpec& layer = spec_.layers[index];
  const LayerWeights& weights = weights_.layer(index);
  const LayerCache& cache = cache_[index];
  const KvGroupInputs& group = inputs.groups[static_cast<size_t>(cache.group)];
  const bool has_rope = spec_.rope_style != RopeStyle::kNone;
  const auto rope = static_cast<size_t>(layer.rope_index);

  run_norm(weights.input_norm, hidden_, normed_, inputs.num_tokens);
  run_linear(weights.qkv, normed_, qkv_, inputs.num_tokens, false);
  qkv_to_cache(stream_, {.qkv = qkv_,
                         .qkv_stride = spec_.qkv_rows(),
                         .q_norm_weight = weights.q_norm,
                         .k_norm_weight = weights.k_norm,
                         .norm_eps = spec_.norm_eps,
                         .rope_style = spec_.rope_style,
                         .rotary_dim = has_rope ? spec_.ropes[rope].rotary_dim : 0,
                         .cos = has_rope ? cos_[rope] : nullptr,
                         .sin = has_rope ? sin_[rope] : nullptr,
                         .slot_mapping = group.slot_mapping,
                         .kv = cache.view,
                         .num_tokens = inputs.num_tokens,
                         .num_heads = spec_.num_heads});
}

void Decoder::attend(const ForwardInputs& inputs, size_t index) {
  const GpuRange range(stream_, "attention", index);
  const LayerSpec& layer = spec_.layers[index];
  const LayerCache& cache = cache_[index];
  const KvGroupInputs& group = inputs.groups[static_cast<size_t>(cache.group)];
  if (index == 0) cut_done_.assign(cuts_.size(), false);
  paged_attention(stream_, {.query = qkv_,
                            .query_stride = spec_.qkv_rows(),
                            .kv = cache.view,
                            .query_start_loc = inputs.query_start_loc,
                            .seq_lens = inputs.seq_lens,
                            .block_table = group.block_table,
                            .max_blocks = group.max_blocks,
                            .num_reqs = inputs.num_reqs,
                            .num_heads = spec_.num_heads,
                            .scale = spec_.attention_scale * layer.attention_share,
                            .sliding_window = layer.sliding_window,
                            .soft_cap = spec_.attention_soft_cap,
                            .sinks = nullptr,
                            .out = attention_,
                            .workspace = attention_workspace_,
                            .workspace_bytes = attention_workspace_bytes_,
                            .batch_cut = cuts_[layer_cut_[index]],
                            .batch_is_cut = cut_done_[layer_cut_[index]],
                            .max_query_len = inputs.max_query_len});
  cut_done_[layer_cut_[index]] = true;
}

void Decoder::output_block(size_t index, int64_t num_tokens) {
  const LayerWeights& weights = weights_.layer(index);
  if (spec_.sandwich_norms) {
    run_linear(weights.o, attention_, block_out_, num_tokens, false);
    add_normed(weights.post_attention_norm, block_out_, hidden_, num_tokens);
  } else {
    run_linear(weights.o, attention_, hidden_, num_tokens, true);
  }
}

void Decoder::mlp_block(size_t index, int64_t num_tokens) {
  const LayerWeights& weights = weights_.layer(index);
  for (int64_t begin = 0; begin < num_tokens; begin += limits_.mlp_tokens) {
    const int64_t count = std::min(limits_.mlp_tokens, num_tokens - begin);
    float* hidden = hidden_ + begin * spec_.hidden_size;
    run_norm(weights.pre_mlp_norm, hidden, normed_, count);
    run_activated(weights.gate_up, count);
    if (spec_.sandwich_norms) {
      run_linear(weights.down, ffn_, block_out_, count, false);
      add_normed(weights.post_mlp_norm, block_out_, hidden, count);
    } else {
      run_linear(weights.down, ffn_, hidden, count, true);
    }
  }
}

void Decoder::run_activated(const LinearWeights& gate_up, int64_t num_tokens) {
  if (spec_.gated_mlp && gate_up.weight.parts.size() == 1 &&
      linear_gates(stream_, gate_up.weight.parts.front().spec)) {
    const LinearGate gate{.activation = spec_.activation, .scratch = gate_up_};
    linear(stream_, {.x = normed_,
                     .x_stride = spec_.hidden_size,
                     .weight = &gate_up.weight.parts.front(),
                     .bias = gate_up.bias,
                     .y = ffn_,
                     .y_stride = spec_.ffn_size,
                     .num_rows = num_tokens,
                     .workspace = linear_workspace_,
                     .gate = &gate});
    return;
  }
  run_linear(gate_up, normed_, gate_up_, num_tokens, false);
  activation(stream_, {.x = gate_up_,
                       .out = ffn_,
                       .activation = spec_.activation,
                       .gated = spec_.gated_mlp,
                       .num_tokens = num_tokens,
                       .ffn_size = spec_.ffn_size});
}

int64_t Decoder::norm_of(std::span<const int32_t> rows) {
  const auto count = static_cast<int64_t>(rows.size());
  QUIRE_CHECK(count <= limits_.max_logit_rows, "{} rows, at most {}", count,
              limits_.max_logit_rows);
  run_norm(weights_.final_norm(), hidden_, normed_, count, rows.data());
  return count;
}

void Decoder::logits(std::span<const int32_t> rows, float* out) {
  const GpuRange range(stream_, "logits");
  const int64_t count = norm_of(rows);
  run_linear(weights_.lm_head(), normed_, out, count, false);
  if (spec_.final_soft_cap > 0.0f) {
    soft_cap(stream_, {.x = out, .cap = spec_.final_soft_cap, .count = count * spec_.vocab_size});
  }
}

void Decoder::greatest_logits(std::span<const int32_t> rows, float* scratch, RowGreatest* found) {
  QUIRE_CHECK(finds_greatest());
  const int64_t count = norm_of(rows);
  run_linear(weights_.lm_head(), normed_, scratch, count, false, found);
}

void Decoder::run_norm(const NormWeights& norm, ConstActivations x, Activations out,
                       int64_t num_tokens, const int32_t* rows) {
  const GpuRange range(stream_, "norm");
  if (spec_.norm == NormKind::kLayer) {
    layer_norm(stream_, {.x = x,
                         .weight = norm.weight,
                         .bias = norm.bias,
                         .out = out,
                         .rows = rows,
                         .eps = spec_.norm_eps,
                         .num_tokens = num_tokens,
                         .hidden_size = spec_.hidden_size});
    return;
  }
  rms_norm(stream_, {.x = x,
                     .weight = norm.weight,
                     .out = out,
                     .add_to = nullptr,
                     .rows = rows,
                     .eps = spec_.norm_eps,
                     .num_tokens = num_tokens,
                     .hidden_size = spec_.hidden_size});
}

void Decoder::add_normed(const NormWeights& norm, ConstActivations x, Activations add_to,
                         int64_t num_tokens) {
  rms_norm(stream_, {.x = x,
                     .weight = norm.weight,
                     .out = nullptr,
                     .add_to = add_to,
                     .rows = nullptr,
                     .eps = spec_.norm_eps,
                     .num_tokens = num_tokens,
                     .hidden_size = spec_.hidden_size});
}

void Decoder::run_linear(const LinearWeights& weights, ConstActivations x, Activations y,
                         int64_t num_tokens, bool accumulate, RowGreatest* greatest) {
  const GpuRange range(stream_, "linear");
  const MatrixWeight& matrix = weights.weight;
  int64_t first = 0;  // of the part, among the outputs
  for (const PackedWeight& part : matrix.parts) {
    linear(stream_, {.x = x,
                     .x_stride = matrix.k,
                     .weight = &part,
                     .bias = weights.bias == nullptr ? nullptr : weights.bias + first,
                     .y = y.from(first),
                     .y_stride = matrix.n,
                     .accumulate = accumulate,
                     .num_rows = num_tokens,
                     .workspace = linear_workspace_,
                     .greatest = greatest});
    first += part.spec.n;
  }
}

}  // namespace quire
