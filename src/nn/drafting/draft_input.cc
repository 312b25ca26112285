#include "nn/drafting/draft_input.h"

#include <algorithm>
#include <cstring>

#include "kernels/api/norm.h"
#include "nn/products/linear_product.h"

namespace quire {

int64_t DraftInput::memory_bytes(const DraftInputSpec& spec, const BatchSizes& sizes) {
  if (!spec.any()) return 0;
  const int64_t pair = sizes.width + (spec.is_beside ? sizes.width : spec.hidden_size);
  return Arena::padded(sizes.max_tokens * pair * 4) +
         Arena::padded(sizes.max_tokens * std::max(sizes.width, spec.hidden_size) * 4);
}

DraftInput::DraftInput(const DraftInputSpec& spec, const DraftInputWeights& weights,
                       const BatchSizes& sizes, Stream& stream, Arena& arena)
    : spec_(spec),
      weights_(weights),
      sizes_(sizes),
      stream_(stream),
      pairs_(arena.allocate<float>(sizes.max_tokens * pair_width())),
      normed_(arena.allocate<float>(sizes.max_tokens * std::max(sizes.width, spec.hidden_size))) {}

int64_t DraftInput::pair_width() const {
  return sizes_.width + (spec_.is_beside ? sizes_.width : spec_.hidden_size);
}

void DraftInput::join(const DraftRows& rows, const int32_t* positions, float* stream,
                      int64_t num_tokens, void* linear_workspace) {
  const int64_t width = sizes_.width;
  for (int64_t t = 0; spec_.ignores_first && t < num_tokens; ++t) {
    if (positions[t] == 0) std::fill_n(stream + t * width, width, 0.0f);
  }
  const int64_t hidden = spec_.hidden_size;
  norm(stream, weights_.embedding_norm, normed_, width, num_tokens);
  place(normed_, spec_.hidden_first ? hidden : 0, width, num_tokens);
  if (!spec_.is_beside) {
    norm(rows.rows, weights_.hidden_norm, normed_, hidden, num_tokens);
    place(normed_, spec_.hidden_first ? 0 : width, hidden, num_tokens);
    return project(pairs_, stream, num_tokens, linear_workspace);
  }
  if (rows.are_own) {
    std::copy_n(rows.rows, num_tokens * width, stream);
  } else {
    project(rows.rows, stream, num_tokens, linear_workspace);
  }
  norm(stream, weights_.hidden_norm, normed_, width, num_tokens);
  place(normed_, width, width, num_tokens);
  if (spec_.streams_normed) std::copy_n(normed_, num_tokens * width, stream);
}

void DraftInput::norm(const float* x, const float* weight, float* out, int64_t width,
                      int64_t num_tokens) {
  if (weight == nullptr) {
    std::copy_n(x, num_tokens * width, out);
    return;
  }
  rms_norm(stream_, {.x = x,
                     .weight = weight,
                     .out = out,
                     .eps = sizes_.norm_eps,
                     .num_tokens = num_tokens,
                     .hidden_size = width});
}

void DraftInput::place(const float* x, int64_t first, int64_t width, int64_t num_tokens) {
  for (int64_t t = 0; t < num_tokens; ++t)
    std::copy_n(x + t * width, width, pairs_ + t * pair_width() + first);
}

void DraftInput::project(const float* x, float* out, int64_t num_tokens, void* linear_workspace) {
  run_linear(stream_, {.weights = weights_.fc,
                       .x = x,
                       .y = out,
                       .num_tokens = num_tokens,
                       .workspace = linear_workspace});
}

}  // namespace quire
