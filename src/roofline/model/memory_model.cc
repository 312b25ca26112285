#include "roofline/model/memory_model.h"

#include <algorithm>
#include <cmath>

#include "roofline/model/layer_plan.h"
#include "roofline/shape/pipeline_layers.h"

namespace quire {
namespace {

constexpr double kGb = 1e9;

// Returns the share of the layers in the stage that has most.
double widest_share(const ModelShape& model, const Parallelism& parallelism) {
  return static_cast<double>(deal_layers(model, parallelism.pp).most()) / model.num_layers();
}

// Returns the weights of one device: layers are divided among tp ranks and pp stages, experts among
// their ranks; embedding and head are on the first and the last stage. The larger of these stages
// counts.
double device_weight_bytes(const ModelShape& model, const Parallelism& parallelism) {
  const double tp = parallelism.tp;
  const double expert_ranks = parallelism.ep > 1 ? parallelism.ep : parallelism.tp;
  const int64_t hidden = model.hidden_size;
  double layers = 0;
  for (const LayerGroup& group : model.groups) {
    const FfnShape& ffn = group.ffn;
    const double width = static_cast<double>(ffn.intermediate_size) + ffn.shared_intermediate_size;
    const double dense =
        group.num_mixer_parameters(hidden) + static_cast<double>(hidden) * ffn.num_matrices * width;
    const double experts = ffn.num_experts * ffn.num_expert_parameters(hidden);
    const double router = static_cast<double>(hidden) * ffn.num_experts;
    layers += group.num_layers *
              (dense / tp * model.weights.bytes() +
               experts / expert_ranks * model.expert_weights.bytes() +
               (router + static_cast<double>(group.table_elements)) * model.head_weights.bytes());
  }
  const double table = static_cast<double>(hidden) * static_cast<double>(model.vocab_size) *
                       model.head_weights.bytes() / tp;
  const double ends = parallelism.pp > 1 ? table : (model.tied_head ? 1 : 2) * table;
  const double share = widest_share(model, parallelism);
  const double sources = (model.num_source_layers() * model.source.num_parameters(hidden) +
                          model.source.num_encoder_parameters()) *
                         model.weights.bytes() / tp;
  // Every device has all of the tower.
  const double tower = model.tower.num_parameters() * model.activations.bytes();
  return layers * share + ends + sources + tower;
}

double device_kv_bytes_per_token(const ModelShape& model, const Parallelism& parallelism) {
  const DevicePlan plan = plan_device(model, parallelism);
  double bytes = 0;
  for (size_t i = 0; i < plan.groups.size(); ++i) {
    if (model.groups[i].attention.shares_kv) continue;
    bytes += plan.groups[i].num_layers * plan.groups[i].prefill.kv_bytes_per_token;
  }
  return bytes * widest_share(model, parallelism);
}

double device_state_bytes(const ModelShape& model, const Parallelism& parallelism) {
  return model.state_bytes_per_sequence() / parallelism.tp * widest_share(model, parallelism);
}

// Returns the outputs of all products together, in the widest feed-forward layer of one device.
double widest_ffn(const ModelShape& model, const Parallelism& parallelism) {
  double widest = 0;
  for (const LayerGroup& group : model.groups) {
    const FfnShape& ffn = group.ffn;
    const double width = ffn.num_matrices * (ffn.intermediate_size + ffn.shared_intermediate_size +
                                             static_cast<double>(ffn.experts_per_token) *
                                                 ffn.expert_intermediate_size);
    widest = std::max(widest, width / parallelism.tp);
  }
  return widest;
}

// Returns Quire's plan for the largest step: residual, attention input and output, the gated FFN,
// and the logits of the sampled rows with the sampler's copy.
double planned_activation_bytes(const ModelShape& model, const Parallelism& parallelism,
                                const MemoryOptions& options) {
  const double tokens = options.max_num_batched_tokens;
  const double rows = std::min(options.max_num_batched_tokens, options.max_num_seqs);
  return tokens * (6 * static_cast<double>(model.hidden_size) + widest_ffn(model, parallelism)) *
             model.activations.bytes() +
         2 * rows * static_cast<double>(model.vocab_size) * 4;
}

// Returns the higher of the two peaks that a server sees when it profiles its largest step.
double profiled_activation_bytes(const ModelShape& model, const Parallelism& parallelism,
                                 const MemoryOptions& options) {
  const double tokens = options.max_num_batched_tokens;
  const double rows = std::min(options.max_num_batched_tokens, options.max_num_seqs);
  double expert_outputs = 0;  // outputs of each expert of a token, before they are summed
  for (const LayerGroup& group : model.groups) {
    expert_outputs = std::max(expert_outputs, static_cast<double>(group.ffn.experts_per_token) *
                                                  static_cast<double>(model.hidden_size));
  }
  // The hidden states and the residual are still needed while the head and the sampler run.
  const double streams = tokens * 2 * static_cast<double>(model.hidden_size);
  const double layer = (streams + tokens * (widest_ffn(model, parallelism) + expert_outputs)) *
                       model.activations.bytes();
  const double sampling =
      streams * model.activations.bytes() +
      rows * static_cast<double>(model.vocab_size) * options.server->bytes_per_logit;
  return std::max(layer, sampling);
}

// Returns the KV's part of `memory_bytes`, of which the share `utilisation` may be used.
double kv_bytes_of(const MemoryEstimate& estimate, const MemoryOptions& options,
                   double memory_bytes, double utilisation) {
  const double taken = estimate.weight_bytes + estimate.activation_bytes + estimate.other_bytes;
  const KvBudget budget = options.server ? options.server->budget : KvBudget::kAll;
  switch (budget) {
    case KvBudget::kStatic:
      return (memory_bytes - estimate.other_bytes) * utilisation - estimate.weight_bytes;
    case KvBudget::kFree:
      return (memory_bytes - taken) * utilisation;
    case KvBudget::kAll:
      break;
  }
  return memory_bytes * utilisation - taken;
}

}  // namespace

Result<MemoryEstimate> estimate_memory(const ModelShape& model, const Hardware& hardware,
                                       const Parallelism& parallelism,
                                       const MemoryOptions& options) {
  QUIRE_RETURN_IF_ERROR(model.validate());
  QUIRE_RETURN_IF_ERROR(parallelism.validate(model));
  if (options.block_size < 1 || options.max_num_batched_tokens < 1) {
    return invalid_argument("expected block_size and max_num_batched_tokens of at least 1");
  }
  const double utilisation =
      options.utilisation > 0 ? options.utilisation : hardware.memory_utilisation;
  MemoryEstimate estimate;
  estimate.weight_bytes = device_weight_bytes(model, parallelism);
  if (options.server) {
    estimate.activation_bytes = profiled_activation_bytes(model, parallelism, options);
    estimate.other_bytes =
        options.server->context_bytes + (parallelism.tp > 1 ? options.server->parallel_bytes : 0);
  } else {
    estimate.activation_bytes = planned_activation_bytes(model, parallelism, options);
    estimate.other_bytes =
        hardware.reserved_bytes + (parallelism.tp > 1 ? hardware.communication_buffer_bytes : 0);
  }
  estimate.kv_bytes_per_token = device_kv_bytes_per_token(model, parallelism);
  estimate.state_bytes_per_sequence = device_state_bytes(model, parallelism);
  const double budget = hardware.memory_bytes * utilisation;
  estimate.kv_bytes = kv_bytes_of(estimate, options, hardware.memory_bytes, utilisation);
  const double block_bytes = estimate.kv_bytes_per_token * options.block_size;
  const double least_bytes = block_bytes + estimate.state_bytes_per_sequence;
  if (estimate.kv_bytes < least_bytes) {
    return resource_exhausted(
        "{}: expected weights {:.1f} GB, activations {:.1f} GB and {:.1f} GB more to fit into "
        "{:.1f} GB per device; {:.1f} GB are missing",
        model.name, estimate.weight_bytes / kGb, estimate.activation_bytes / kGb,
        estimate.other_bytes / kGb, budget / kGb, (least_bytes - estimate.kv_bytes) / kGb);
  }
  if (block_bytes <= 0) return estimate;
  estimate.num_blocks = static_cast<int64_t>(estimate.kv_bytes / block_bytes);
  estimate.num_tokens = estimate.num_blocks * options.block_size;
  return estimate;
}

}  // namespace quire
