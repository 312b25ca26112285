#include "quire/bench/bound.h"

#include <algorithm>

namespace quire::bench {

Bound::Bound(const ModelPlan& plan, const Ceilings& ceilings) : ceilings_(ceilings) {
  const DecoderSpec& spec = plan.spec;
  const double table = static_cast<double>(spec.vocab_size * spec.hidden_size);
  const double embeddings = spec.tied_head ? table : 2 * table;  // counted in num_parameters()
  layer_parameters_ = static_cast<double>(spec.num_parameters()) - embeddings;
  head_parameters_ = table;
  weight_bytes_ = static_cast<double>(plan.memory.matrices);
  kv_bytes_per_token_ = plan.memory.kv_bytes_per_token;
  attention_flops_per_pair_ =
      4.0 * static_cast<double>(spec.q_rows()) * static_cast<double>(spec.layers.size());
}

double Bound::decode_bytes(int32_t batch_size, double context) const {
  return weight_bytes_ + batch_size * context * kv_bytes_per_token_;
}

double Bound::decode_s(int32_t batch_size, double context) const {
  const double flops = batch_size * (2 * (layer_parameters_ + head_parameters_) +
                                     context * attention_flops_per_pair_);
  return std::max(decode_bytes(batch_size, context) / ceilings_.read_bytes_per_s,
                  flops / ceilings_.flops_per_s);
}

double Bound::prefill_flops(int64_t num_tokens) const {
  const auto n = static_cast<double>(num_tokens);
  return 2 * layer_parameters_ * n + 2 * head_parameters_ +
         attention_flops_per_pair_ * n * (n + 1) / 2;
}

double Bound::prefill_s(int64_t num_tokens) const {
  return std::max(weight_bytes_ / ceilings_.read_bytes_per_s,
                  prefill_flops(num_tokens) / ceilings_.flops_per_s);
}

}  // namespace quire::bench
