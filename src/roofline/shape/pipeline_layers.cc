#include "roofline/shape/pipeline_layers.h"

#include <algorithm>

namespace quire {
namespace {

// Returns how many layers have as many parameters as the head.
double head_layers(const ModelShape& model) {
  double layers = 0;
  for (const LayerGroup& group : model.groups) {
    const FfnShape& ffn = group.ffn;
    const double width = static_cast<double>(ffn.intermediate_size) + ffn.shared_intermediate_size;
    layers +=
        group.num_layers * (group.num_mixer_parameters(model.hidden_size) +
                            static_cast<double>(model.hidden_size) * ffn.num_matrices * width +
                            ffn.num_experts * ffn.num_expert_parameters(model.hidden_size));
  }
  const double head =
      static_cast<double>(model.hidden_size) * static_cast<double>(model.vocab_size);
  return layers > 0 ? head / layers * model.num_layers() : 0;
}

}  // namespace

PipelineLayers deal_layers(const ModelShape& model, int32_t num_stages) {
  const int64_t num_layers = model.num_layers();
  if (num_stages <= 1) return {.before_last = 0, .last = num_layers};
  const int64_t others = num_stages - 1;
  const double head = head_layers(model);
  PipelineLayers best;
  double least = 0;
  for (int64_t last = num_layers - others; last >= 1; --last) {
    const int64_t before_last = (num_layers - last + others - 1) / others;
    const double most =
        std::max(static_cast<double>(before_last), static_cast<double>(last) + head);
    if (best.last > 0 && most >= least) continue;
    best = {.before_last = before_last, .last = last};
    least = most;
  }
  return best;
}

}  // namespace quire
