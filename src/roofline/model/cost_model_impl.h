// The parts of a cost model, and how they are summed. Only cost_model.cc includes this header.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "roofline/model/cost_model.h"
#include "roofline/model/expert_routing.h"
#include "roofline/model/layer_plan.h"
#include "roofline/model/operator_tables.h"
#include "roofline/model/part_cost.h"

namespace quire {

inline constexpr int32_t kMaxMemoisedRows = 1024;  // rows that are sampled

// Returns the sum of the keys that the decodes of a step see in a layer of the group.
inline double keys_seen(const GroupPlan& group, const DecodeSums& decode) {
  return static_cast<double>(group.window_index < 0
                                 ? decode.context
                                 : decode.windowed[static_cast<size_t>(group.window_index)]);
}

struct CostModel::Impl {
  ModelShape model;
  Hardware hardware;
  Parallelism parallelism;
  CostOptions options;
  std::shared_ptr<const OperatorTables> tables;  // shared by the models of one simulation
  std::vector<int32_t> windows;
  DevicePlan plan;
  std::vector<PartCost> linear;  // by tokens
  std::vector<PartCost> head;    // by sampled rows

  // Returns the kernel time at this fidelity.
  KernelTime seen(KernelTime time) const {
    if (options.fidelity == Fidelity::kBound) {
      time.predicted_us = time.bound_us;
      time.launch_us = 0;
    }
    return time;
  }

  KernelTime gemm(const GemmWork& work) const {
    KernelTime time = gemm_time(work, hardware);
    if (tables != nullptr) tables->apply(work, time);
    return seen(time);
  }

  KernelTime experts(const ExpertsWork& work) const {
    KernelTime time = experts_time(work, hardware);
    if (tables != nullptr) tables->apply(work, time);
    return seen(time);
  }

  int32_t padded(int32_t tokens) const {
    const std::vector<int32_t>& sizes = hardware.host.graph_sizes;
    const auto it = std::lower_bound(sizes.begin(), sizes.end(), tokens);
    return it == sizes.end() || options.fidelity == Fidelity::kBound ? tokens : *it;
  }

  template <typename Visit>
  void visit_experts(const GroupPlan& group, double tokens, Visit& visit) const {
    const int32_t ep = parallelism.ep;
    const double all_tokens = tokens * (ep > 1 ? parallelism.dp : 1);
    const bool even = options.fidelity == Fidelity::kBound;
    const ExpertLoad load = spread_tokens({.num_experts = group.num_experts,
                                           .experts_per_token = group.experts_per_token,
                                           .num_ranks = static_cast<double>(ep),
                                           .skew = even ? 0 : options.routing_skew,
                                           .weights = model.expert_weights,
                                           .sees_all_rows = parallelism.dp == 1},
                                          all_tokens);
    // Without an all-to-all (which replicas of attention have) every device gets all rows.
    const double all_rows = all_tokens * group.experts_per_token;
    visit(Kernel::kExperts,
          experts({.rows = load.rows,
                   .distinct = load.distinct,
                   .foreign_rows = parallelism.dp > 1 ? 0 : all_rows - load.rows,
                   .padding = load.padding,
                   .hidden_size = plan.hidden_size,
                   .gate_up_rows = group.gate_up_rows,
                   .down_depth = group.down_depth,
                   .weights = model.expert_weights,
                   .activation_bytes = plan.activation_bytes}),
          group.num_layers);
    if (ep > 1 && parallelism.dp > 1) {
      const double bytes =
          tokens * group.experts_per_token * plan.hidden_size * plan.activation_bytes;
      const KernelTime hop = seen(
          collective_time(Collective::kAllToAll, std::min(ep, parallelism.dp), bytes, hardware));
      visit(Kernel::kAllToAll, hop, 2 * group.num_layers);
    }
  }

  // Visits all kernels except attention and the head, for `tokens` tokens.
  template <typename Visit>
  void visit_linear(double tokens, Visit& visit) const {
    const double row_bytes = tokens * plan.hidden_size * plan.activation_bytes;
    for (const GroupPlan& group : plan.groups) {
      for (const LinearOp& op : group.linears) {
        const GemmWork work{.m = tokens,
                            .n = op.n,
                            .k = op.k,
                            .weights = op.weights,
                            .activation_bytes = plan.activation_bytes};
        visit(op.kernel, gemm(work), group.num_layers);
      }
      if (group.num_experts > 0) visit_experts(group, tokens, visit);
      visit(Kernel::kElementwise,
            seen(elementwise_time(tokens * group.elementwise_bytes_per_token,
                                  tokens * group.elementwise_written_per_token,
                                  hardware.elementwise.kernels_per_layer, hardware)),
            group.num_layers);
      if (group.latent_width > 0) {
        visit(Kernel::kElementwise,
              seen(latent_copies_time(group, tokens, plan.activation_bytes, hardware)),
              group.num_layers);
      }
      if (parallelism.tp > 1) {
        visit(Kernel::kAllReduce,
              seen(collective_time(Collective::kAllReduce, parallelism.tp, row_bytes, hardware)),
              group.num_reductions * group.num_layers);
      }
    }
    visit(Kernel::kEmbedding,
          seen(elementwise_time(
              tokens * plan.hidden_size * (plan.embedding_bytes + plan.activation_bytes), row_bytes,
              1, hardware)),
          1);
    if (parallelism.pp > 1) {
      KernelTime hop;
      hop.bound_us = row_bytes / hardware.device_link.bytes_per_s * 1e6;
      hop.launch_us = hardware.device_link.latency_us;
      hop.predicted_us = hop.bound_us + hop.launch_us;
      visit(Kernel::kPipelineHop, seen(hop), parallelism.pp - 1);
    }
  }

  template <typename Visit>
  void visit_head(double rows, Visit& visit) const {
    if (rows <= 0) return;
    visit(Kernel::kHead,
          gemm({.m = rows,
                .n = plan.vocab_rows,
                .k = plan.hidden_size,
                .weights = model.head_weights,
                .activation_bytes = plan.activation_bytes}),
          1);
    visit(Kernel::kSampling, seen(elementwise_time(rows * plan.vocab_size * 4, 0, 2, hardware)), 1);
    if (parallelism.tp > 1) {
      visit(Kernel::kAllReduce,
            seen(collective_time(Collective::kAllGather, parallelism.tp, rows * plan.vocab_size * 4,
                                 hardware)),
            1);
    }
  }

  KernelTime prefill_attention(const GroupPlan& group, const StepShape& step) const {
    if (group.prefill.num_heads <= 0) return {};
    KernelTime time = prefill_attention_time(group.prefill, step.chunks, hardware);
    if (tables != nullptr) tables->apply_prefill(group.prefill, step.chunks, time);
    if (group.index.num_heads > 0)
      time.add(prefill_attention_time(group.index, step.chunks, hardware));
    return seen(time);
  }

  // `chunks` are those of the same step; they matter if both kinds share a launch.
  KernelTime decode_attention(const GroupPlan& group, const DecodeSums& decode,
                              std::span<const PromptChunk> chunks) const {
    if (group.decode.num_heads <= 0) return {};
    const double context = keys_seen(group, decode);
    const bool joined = !chunks.empty() && shares_attention_launch(hardware, group.decode);
    KernelTime time =
        joined ? joined_decode_time(group.decode, chunks, decode.num_requests, context, hardware)
               : decode_attention_time(group.decode, decode.num_requests, context, hardware);
    if (tables != nullptr && !joined) {
      tables->apply_decode(group.decode, decode.num_requests, context, time);
    }
    if (group.index.num_heads > 0) {
      time.add(decode_attention_time(group.index, decode.num_requests,
                                     static_cast<double>(decode.context), hardware));
    }
    return seen(time);
  }

  // Prompts and decodes update states in separate launches, as in attention.
  KernelTime prompt_scan(const GroupPlan& group, std::span<const PromptChunk> chunks) const {
    double tokens = 0;
    for (const PromptChunk& chunk : chunks) tokens += chunk.num_tokens;
    return seen(state_scan_time(group.state, tokens, static_cast<double>(chunks.size()), hardware));
  }
  KernelTime token_scan(const GroupPlan& group, const DecodeSums& decode) const {
    return seen(state_scan_time(group.state, decode.num_requests, decode.num_requests, hardware));
  }

  template <typename Visit>
  void visit_attention(const StepShape& step, Visit& visit) const {
    for (const GroupPlan& group : plan.groups) {
      if (!step.chunks.empty()) {
        visit(Kernel::kPrefillAttention, prefill_attention(group, step), group.num_layers);
        visit(Kernel::kStateScan, prompt_scan(group, step.chunks), group.num_layers);
      }
      if (step.decode.num_requests > 0) {
        visit(Kernel::kDecodeAttention, decode_attention(group, step.decode, step.chunks),
              group.num_layers);
        visit(Kernel::kStateScan, token_scan(group, step.decode), group.num_layers);
      }
    }
  }

  PartCost make_linear(int32_t tokens) const {
    PartCost cost;
    if (tokens <= 0) return cost;
    KernelSum sum(cost);
    visit_linear(tokens, sum);
    return cost;
  }
  PartCost make_head(int32_t rows) const {
    PartCost cost;
    KernelSum sum(cost);
    visit_head(rows, sum);
    return cost;
  }

  void memoise() {
    const int32_t tokens = std::max(0, options.max_memoised_tokens);
    linear.reserve(static_cast<size_t>(tokens) + 1);
    for (int32_t t = 0; t <= tokens; ++t) linear.push_back(make_linear(t));
    const int32_t rows = std::min(tokens, kMaxMemoisedRows);
    for (int32_t r = 0; r <= rows; ++r) head.push_back(make_head(r));
  }

  PartCost linear_part(int32_t tokens) const {
    const auto t = static_cast<size_t>(tokens);
    return t < linear.size() ? linear[t] : make_linear(tokens);
  }
  PartCost head_part(int32_t rows) const {
    const auto r = static_cast<size_t>(rows);
    return r < head.size() ? head[r] : make_head(rows);
  }
  double head_us(int32_t rows) const {
    const auto r = static_cast<size_t>(rows);
    return r < head.size() ? head[r].us : make_head(rows).us;
  }
  double linear_us(int32_t tokens) const {
    const auto t = static_cast<size_t>(tokens);
    return t < linear.size() ? linear[t].us : make_linear(tokens).us;
  }

  double prefill_us(const StepShape& step) const {
    double us = 0;
    if (step.chunks.empty()) return us;
    for (const GroupPlan& group : plan.groups) {
      us += group.num_layers * (prefill_attention(group, step).predicted_us +
                                prompt_scan(group, step.chunks).predicted_us);
    }
    return us;
  }
  double decode_us(const DecodeSums& decode, std::span<const PromptChunk> chunks) const {
    double us = 0;
    if (decode.num_requests == 0) return us;
    for (const GroupPlan& group : plan.groups) {
      us += group.num_layers * (decode_attention(group, decode, chunks).predicted_us +
                                token_scan(group, decode).predicted_us);
    }
    return us;
  }

  // Returns the time of the layers without head and host, by the combination rule.
  double layers_us(const StepShape& step) const {
    const double prefill = prefill_us(step);
    const double decode = decode_us(step.decode, step.chunks);
    const bool mixed = !step.chunks.empty() && step.decode.num_requests > 0;
    const bool phases =
        hardware.rule == CombinationRule::kMax || hardware.rule == CombinationRule::kMaxPlusMin;
    double us = 0;
    if (mixed && phases && options.fidelity != Fidelity::kBound) {
      const int32_t decodes = step.decode.num_requests;
      const double first = prefill + linear_us(step.num_tokens - decodes);
      const double second = decode + linear_us(decodes);
      const double lambda = hardware.rule == CombinationRule::kMax ? 0 : hardware.lambda;
      us = std::max(first, second) + lambda * std::min(first, second);
    } else {
      us = linear_us(padded(step.num_tokens)) + prefill + decode;
      if (mixed && hardware.rule == CombinationRule::kMarginal)
        us -= minimal_decode_us(step.decode);
    }
    return std::max(us, launch_floor_us(step.num_tokens));
  }

  double minimal_decode_us(DecodeSums decode) const {
    decode.context = decode.num_requests;
    decode.windowed.fill(decode.num_requests);
    return decode_us(decode, {});
  }

  // A step larger than any graph is launched kernel by kernel.
  double launch_floor_us(int32_t tokens) const {
    const HostModel& host = hardware.host;
    if (options.fidelity == Fidelity::kBound || host.layer_launch_us <= 0) return 0;
    if (!host.graph_sizes.empty() && tokens <= host.graph_sizes.back()) return 0;
    return host.layer_launch_us * model.num_layers();
  }

  double host_us(const StepShape& step) const {
    if (options.fidelity == Fidelity::kBound) return 0;
    const HostModel& host = hardware.host;
    return host.step_us + host.request_us * step.num_requests + host.token_us * step.num_tokens;
  }
};

// The launches of decodes in the layers of one group, for one batch whose contexts grow.
struct DecodeLaunches {
  const GroupPlan* group = nullptr;
  DecodeLaunch attention;
  DecodeLaunch index;
  double scan_us = 0;
};

template <typename Model>
std::vector<DecodeLaunches> decode_launches(const Model& model, int32_t num_requests) {
  const double requests = num_requests;
  std::vector<DecodeLaunches> launches;
  launches.reserve(model.plan.groups.size());
  for (const GroupPlan& group : model.plan.groups) {
    DecodeLaunches& own = launches.emplace_back();
    own.group = &group;
    if (group.decode.num_heads > 0) own.attention = {group.decode, requests, model.hardware};
    if (group.index.num_heads > 0) own.index = {group.index, requests, model.hardware};
    own.scan_us = model.token_scan(group, {.num_requests = num_requests}).predicted_us;
  }
  return launches;
}

// Predicts what Impl::decode_attention() predicts, for a step without prompt chunks.
template <typename Model>
double decode_attention_us(const Model& model, DecodeLaunches& own, const DecodeSums& decode) {
  const double keys = keys_seen(*own.group, decode);
  const auto all_keys = static_cast<double>(decode.context);
  if (model.options.fidelity == Fidelity::kBound)
    return own.attention.bound_us(keys) + own.index.bound_us(all_keys);
  double us = own.attention.predicted_us(keys);
  if (model.tables != nullptr) {
    us = model.tables->scaled_decode_us(own.group->decode, decode.num_requests, keys, us,
                                        own.attention.bound_us(keys));
  }
  return us + own.index.predicted_us(all_keys);
}

// Predicts what Impl::decode_us() predicts.
template <typename Model>
double decode_us(const Model& model, std::span<DecodeLaunches> launches, const DecodeSums& decode) {
  double us = 0;
  for (DecodeLaunches& own : launches)
    us += own.group->num_layers * (decode_attention_us(model, own, decode) + own.scan_us);
  return us;
}

}  // namespace quire
