#include "nn/drafting/draft_input.h"

#include <algorithm>

#include "kernels/api/norm.h"
#include "kernels/api/rows/copy_rows.h"
#include "nn/products/linear_product.h"
#include "nn/products/product_inputs.h"

namespace quire {
namespace {

// Returns the elements of DraftInput's states_, whose source rows are floats.
int64_t num_states(const DraftInputSpec& spec, const BatchSizes& sizes) {
  const bool converts = spec.is_beside && sizes.activation_type != DType::kF32;
  return converts ? sizes.max_tokens * spec.hidden_size : 0;
}

}  // namespace

int64_t DraftInput::memory_bytes(const DraftInputSpec& spec, const BatchSizes& sizes) {
  if (!spec.any()) return 0;
  const int64_t pair = sizes.width + (spec.is_beside ? sizes.width : spec.hidden_size);
  const int64_t element = size_bytes(sizes.activation_type);
  return Arena::padded(sizes.max_tokens * pair * element) +
         Arena::padded(num_states(spec, sizes) * element) +
         Arena::padded(sizes.max_tokens * std::max(sizes.width, spec.hidden_size) * 4);
}

DraftInput::DraftInput(const DraftInputSpec& spec, const DraftInputWeights& weights,
                       const BatchSizes& sizes, Stream& stream, Arena& arena)
    : spec_(spec),
      weights_(weights),
      sizes_(sizes),
      stream_(stream),
      pairs_(allocate_activations(arena, sizes.activation_type, sizes.max_tokens * pair_width())),
      states_(allocate_activations(arena, sizes.activation_type, num_states(spec, sizes))),
      normed_(arena.allocate<float>(sizes.max_tokens * std::max(sizes.width, spec.hidden_size))) {}

int64_t DraftInput::pair_width() const {
  return sizes_.width + (spec_.is_beside ? sizes_.width : spec_.hidden_size);
}

void DraftInput::join(const DraftRows& rows, const int32_t* positions, float* stream,
                      int64_t num_tokens, void* linear_workspace) {
  const int64_t width = sizes_.width;
  const int64_t hidden = spec_.hidden_size;
  // A zero embedding stays zero under the norm.
  place(normed(stream, weights_.embedding_norm, width, num_tokens), spec_.hidden_first ? hidden : 0,
        width, num_tokens, spec_.ignores_first ? positions : nullptr);
  if (!spec_.is_beside) {
    place(normed(rows.rows, weights_.hidden_norm, hidden, num_tokens),
          spec_.hidden_first ? 0 : width, hidden, num_tokens);
    return project(pairs_, stream, num_tokens, linear_workspace);
  }
  if (rows.are_own) {
    copy(rows.rows, stream, num_tokens);
  } else {
    const ProductInputs states =
        product_inputs(stream_, {rows.rows, hidden}, states_, num_tokens, hidden);
    project(states.x, stream, num_tokens, linear_workspace);
  }
  const float* const normed_stream = normed(stream, weights_.hidden_norm, width, num_tokens);
  place(normed_stream, width, width, num_tokens);
  if (spec_.streams_normed) copy(normed_stream, stream, num_tokens);
}

const float* DraftInput::normed(const float* x, const float* weight, int64_t width,
                                int64_t num_tokens) {
  if (weight == nullptr) return x;
  rms_norm(stream_, {.x = x,
                     .weight = weight,
                     .out = normed_,
                     .eps = sizes_.norm_eps,
                     .num_tokens = num_tokens,
                     .hidden_size = width});
  return normed_;
}

void DraftInput::place(const float* x, int64_t first, int64_t width, int64_t num_tokens,
                       const int32_t* positions) {
  copy_rows(stream_, {.x = x,
                      .x_stride = width,
                      .out = pairs_.from(first),
                      .out_stride = pair_width(),
                      .positions = positions,
                      .num_tokens = num_tokens,
                      .size = width});
}

void DraftInput::copy(const float* x, float* out, int64_t num_tokens) {
  copy_rows(stream_, {.x = x,
                      .x_stride = sizes_.width,
                      .out = out,
                      .out_stride = sizes_.width,
                      .num_tokens = num_tokens,
                      .size = sizes_.width});
}

void DraftInput::project(ConstActivations x, float* out, int64_t num_tokens,
                         void* linear_workspace) {
  run_linear(stream_, {.weights = weights_.fc,
                       .x = x,
                       .y = out,
                       .num_tokens = num_tokens,
                       .workspace = linear_workspace});
}

}  // namespace quire
