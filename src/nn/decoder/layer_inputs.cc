#include "nn/decoder/layer_inputs.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "device/gpu_range.h"
#include "kernels/api/activation.h"
#include "kernels/api/embedding.h"
#include "kernels/api/norm.h"
#include "kernels/api/rows/copy_rows.h"
#include "nn/products/block_norm.h"
#include "nn/products/linear_product.h"
#include "nn/products/product_inputs.h"

namespace quire {

struct LayerInputs::Sizes {
  int64_t ids = 0, inputs = 0, scratch = 0, read = 0, gated = 0, inside = 0;

  Sizes(const DecoderSpec& spec, const BlockLimits& limits) {
    if (!spec.layer_inputs.any()) return;
    const int64_t max_tokens = limits.max_tokens;
    const int64_t width = spec.layer_inputs.size * static_cast<int64_t>(spec.layers.size());
    ids = max_tokens;
    inputs = max_tokens * width;
    scratch = max_tokens * std::max(width, spec.hidden_size);
    if (limits.activation_type != DType::kF32) read = max_tokens * spec.hidden_size;
    gated = max_tokens * 2 * spec.layer_inputs.size;
    inside = max_tokens * spec.layer_inputs.size;
  }
};

int64_t LayerInputs::memory_bytes(const DecoderSpec& spec, const BlockLimits& limits) {
  const Sizes sizes(spec, limits);
  int64_t bytes = Arena::padded(sizes.ids * int64_t{sizeof(TokenId)});
  for (const int64_t count : {sizes.inputs, sizes.scratch})
    bytes += Arena::padded(count * int64_t{sizeof(float)});
  for (const int64_t count : {sizes.read, sizes.gated, sizes.inside})
    bytes += Arena::padded(count * size_bytes(limits.activation_type));
  return bytes;
}

LayerInputs::LayerInputs(const DecoderSpec& spec, const DecoderWeights& weights,
                         const BlockLimits& limits, Stream& stream, Arena& arena)
    : spec_(spec), weights_(weights), stream_(stream) {
  const Sizes sizes(spec, limits);
  ids_ = arena.allocate<TokenId>(sizes.ids);
  inputs_ = arena.allocate<float>(sizes.inputs);
  scratch_ = arena.allocate<float>(sizes.scratch);
  read_ = allocate_activations(arena, limits.activation_type, sizes.read);
  gated_ = allocate_activations(arena, limits.activation_type, sizes.gated);
  inside_ = allocate_activations(arena, limits.activation_type, sizes.inside);
}

int64_t LayerInputs::width() const {
  return spec_.layer_inputs.size * static_cast<int64_t>(spec_.layers.size());
}

void LayerInputs::prepare(const ForwardInputs& inputs, const float* embedded,
                          void* linear_workspace) {
  const GpuRange range(stream_, "layer inputs");
  const int64_t size = spec_.layer_inputs.size, num_tokens = inputs.num_tokens;
  const TokenId* ids = inputs.input_ids;
  if (!inputs.given_rows.empty()) {
    std::copy_n(inputs.input_ids, num_tokens, ids_);
    for (const GivenRows& given : inputs.given_rows)
      std::fill_n(ids_ + given.first, given.count,
                  static_cast<TokenId>(spec_.layer_inputs.given_row));
    ids = ids_;
  }
  const TableWeight& table = weights_.layer_table();
  embedding(stream_, {.token_ids = ids,
                      .table = table.data,
                      .packed_table = table.packed ? &*table.packed : nullptr,
                      .table_dtype = table.dtype,
                      .scale = std::sqrt(static_cast<float>(size)),
                      .out = inputs_,
                      .num_rows = spec_.layer_inputs.vocab_size,
                      .num_tokens = num_tokens,
                      .hidden_size = width()});
  run_linear(stream_, {.weights = weights_.layer_projection(),
                       .x = read(embedded, num_tokens),
                       .y = scratch_,
                       .num_tokens = num_tokens,
                       .workspace = linear_workspace});
  // The projection must be multiplied by E^-1/2. Its norm is that of the unscaled projection with a
  // larger epsilon.
  rms_norm(stream_, {.x = scratch_,
                     .weight = weights_.layer_projection_norm(),
                     .add_to = inputs_,
                     .eps = spec_.norm_eps * static_cast<float>(spec_.hidden_size),
                     .num_tokens = num_tokens * width() / size,
                     .hidden_size = size});
  scale_columns(stream_, {inputs_, width()}, width(), 1.0f / std::numbers::sqrt2_v<float>,
                num_tokens);
}

ConstActivations LayerInputs::read(const float* rows, int64_t num_tokens) {
  return product_inputs(stream_, {rows, spec_.hidden_size}, read_, num_tokens, spec_.hidden_size).x;
}

void LayerInputs::add(size_t layer, float* hidden, int64_t num_tokens, void* linear_workspace) {
  project(layer, hidden, num_tokens, linear_workspace);
  norm(layer, nullptr, hidden, num_tokens);
}

const float* LayerInputs::make(size_t layer, const float* hidden, int64_t num_tokens,
                               void* linear_workspace) {
  project(layer, hidden, num_tokens, linear_workspace);
  norm(layer, scratch_, nullptr, num_tokens);
  return scratch_;
}

void LayerInputs::norm(size_t layer, float* out, float* add_to, int64_t num_tokens) {
  rms_norm(stream_, {.x = scratch_,
                     .weight = weights_.layer(layer).input_norm_behind,
                     .out = out,
                     .add_to = add_to,
                     .eps = spec_.norm_eps,
                     .num_tokens = num_tokens,
                     .hidden_size = spec_.hidden_size});
}

void LayerInputs::project(size_t layer, const float* hidden, int64_t num_tokens,
                          void* linear_workspace) {
  const GpuRange range(stream_, "layer input", layer);
  const LayerWeights& weights = weights_.layer(layer);
  const int64_t size = spec_.layer_inputs.size;
  const float* input = inputs_ + static_cast<int64_t>(layer) * size;
  // A row consists of the gate, followed by the values that it gates.
  run_linear(stream_, {.weights = weights.input_gate,
                       .x = read(hidden, num_tokens),
                       .y = gated_,
                       .y_stride = 2 * size,
                       .num_tokens = num_tokens,
                       .workspace = linear_workspace});
  copy_rows(stream_, {.x = input,
                      .x_stride = width(),
                      .out = gated_.from(size),
                      .out_stride = 2 * size,
                      .num_tokens = num_tokens,
                      .size = size});
  activation(stream_, {.x = gated_,
                       .out = inside_,
                       .activation = spec_.layer_inputs.activation,
                       .num_tokens = num_tokens,
                       .ffn_size = size});
  run_linear(stream_, {.weights = weights.input_up,
                       .x = inside_,
                       .y = scratch_,
                       .num_tokens = num_tokens,
                       .workspace = linear_workspace});
}

}  // namespace quire
