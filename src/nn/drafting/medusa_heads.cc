#include "nn/drafting/medusa_heads.h"

#include <algorithm>

#include "kernels/api/activation.h"
#include "nn/products/linear_product.h"

namespace quire {

MedusaHeads::MedusaHeads(const MedusaSpec& spec, DType dtype, ComputeType compute)
    : spec_(spec),
      dtype_(dtype),
      compute_(compute),
      blocks_(static_cast<size_t>(spec.num_heads)),
      heads_(spec.shares_head ? 1 : static_cast<size_t>(spec.num_heads)) {
  for (size_t head = 0; head < blocks_.size(); ++head) {
    const auto index = static_cast<int32_t>(head);
    blocks_[head].resize(static_cast<size_t>(spec.num_blocks));
    for (size_t block = 0; block < blocks_[head].size(); ++block) {
      add_matrix(index, static_cast<int32_t>(block), {TensorRole::kMedusaBlock, spec.hidden_size},
                 blocks_[head][block], spec.has_bias);
    }
    if (head < heads_.size())
      add_matrix(index, -1, {TensorRole::kMedusaHead, spec.num_logits}, heads_[head], false);
  }
}

void MedusaHeads::add_matrix(int32_t head, int32_t block, SlotPart part, LinearWeights& out,
                             bool bias) {
  const WeightSpec spec{
      .n = part.rows, .k = spec_.hidden_size, .dtype = dtype_, .compute = compute_};
  out.weight = {.n = spec.n, .k = spec.k, .parts = {{spec, nullptr}}};
  slots_.push_back({.layer = head,
                    .expert = block,
                    .parts = {part},
                    .matrix = &out.weight,
                    .quant_compute = compute_});
  if (bias) {
    slots_.push_back(
        {.layer = head, .expert = block, .bias = true, .parts = {part}, .vector = &out.bias});
  }
}

int64_t MedusaHeads::linear_bytes(const Stream& stream, int64_t max_rows) const {
  int64_t bytes = 0;
  const auto add = [&](const LinearWeights& linear) {
    bytes = std::max(bytes, linear_workspace_bytes(stream, max_rows, linear));
  };
  for (const std::vector<LinearWeights>& blocks : blocks_) std::ranges::for_each(blocks, add);
  std::ranges::for_each(heads_, add);
  return bytes;
}

int64_t MedusaHeads::workspace_bytes(const Stream& stream, int64_t max_rows) const {
  return Arena::padded(max_rows * spec_.hidden_size * 4) +
         Arena::padded(linear_bytes(stream, max_rows));
}

void MedusaHeads::make_workspace(const Stream& stream, int64_t max_rows, Arena& arena) {
  inside_ = arena.allocate<float>(max_rows * spec_.hidden_size);
  workspace_ = arena.allocate_bytes(linear_bytes(stream, max_rows));
}

void MedusaHeads::logits(Stream& stream, int64_t head, float* x, int64_t num_rows, float* out) {
  const int64_t count = num_rows * spec_.hidden_size;
  const auto index = static_cast<size_t>(head);
  for (const LinearWeights& block : blocks_[index]) {
    run_linear(
        stream,
        {.weights = block, .x = x, .y = inside_, .num_tokens = num_rows, .workspace = workspace_});
    activation(stream, {.x = inside_,
                        .out = inside_,
                        .activation = Activation::kSilu,
                        .gated = false,
                        .num_tokens = num_rows,
                        .ffn_size = spec_.hidden_size});
    std::transform(inside_, inside_ + count, x, x, std::plus<>());
  }
  run_linear(stream, {.weights = heads_[spec_.shares_head ? 0 : index],
                      .x = x,
                      .y = out,
                      .num_tokens = num_rows,
                      .workspace = workspace_});
}

}  // namespace quire
