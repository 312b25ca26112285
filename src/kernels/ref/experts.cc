#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "kernels/ref/ref.h"

namespace quire::ref {
namespace {

std::vector<double> scores_of(const float* logits, const RouterSpec& router) {
  std::vector<double> scores(logits, logits + router.num_experts);
  if (router.score == RouterScore::kSigmoid) {
    for (double& score : scores) score = 1.0 / (1.0 + std::exp(-score));
    return scores;
  }
  const double most = *std::max_element(scores.begin(), scores.end());
  double sum = 0.0;
  for (double& score : scores) sum += score = std::exp(score - most);
  for (double& score : scores) score /= sum;
  return scores;
}

// Sets experts outside of the best groups to minus infinity.
void mask_groups(const RouterSpec& router, std::vector<double>& choice) {
  const int size = router.num_experts / router.num_groups;
  std::vector<double> groups;
  for (int group = 0; group < router.num_groups; ++group) {
    std::vector<double> sorted(choice.begin() + group * size, choice.begin() + (group + 1) * size);
    std::sort(sorted.rbegin(), sorted.rend());
    const bool two = router.group_score == GroupScore::kSumOfTwo && size > 1;
    groups.push_back(sorted[0] + (two ? sorted[1] : 0.0));
  }
  std::vector<int> order(groups.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return groups[a] > groups[b]; });
  for (size_t rank = static_cast<size_t>(router.groups_per_token); rank < order.size(); ++rank) {
    std::fill_n(choice.begin() + order[rank] * size, size,
                -std::numeric_limits<double>::infinity());
  }
}

// Returns the weight of `pick`. `left` has the logits that may still be picked; all others are
// minus infinity.
double sparse_mixer_weight(const float* logits, const std::vector<double>& left, int pick,
                           double jitter) {
  const double most = left[static_cast<size_t>(pick)];
  double sum = 0.0;
  for (size_t i = 0; i < left.size(); ++i) {
    const double logit = logits[i];
    if ((most - logit) / std::max(std::abs(logit), most) > 2.0 * jitter) continue;
    sum += std::exp(left[i] - most);
  }
  return 1.0 / sum;
}

}  // namespace

void route_tokens(const RouteTokensParams& params) {
  const RouterSpec& router = params.router;
  const auto k = static_cast<size_t>(router.experts_per_token);
  for (int64_t t = 0; t < params.num_tokens; ++t) {
    const float* logits = params.logits + t * router.num_experts;
    const std::vector<double> scores = scores_of(logits, router);
    const bool by_logit = router.weight == RouterWeight::kSoftmaxOfChosen ||
                          router.weight == RouterWeight::kSparseMixer ||
                          router.weight == RouterWeight::kLogit;
    std::vector<double> choice = scores;
    if (by_logit) choice.assign(logits, logits + router.num_experts);
    for (size_t i = 0; i < choice.size() && params.bias != nullptr; ++i)
      choice[i] += params.bias[i];
    if (router.num_groups > 1) mask_groups(router, choice);
    std::vector<double> weights;
    int32_t* ids = params.expert_ids + t * router.experts_per_token;
    for (size_t j = 0; j < k; ++j) {
      const auto best = std::max_element(choice.begin(), choice.end()) - choice.begin();
      ids[j] = static_cast<int32_t>(best);
      double weight = scores[static_cast<size_t>(best)];
      if (router.weight == RouterWeight::kSoftmaxOfChosen) {
        weight = std::exp(double{logits[best]} - logits[ids[0]]);
      } else if (router.weight == RouterWeight::kSparseMixer) {
        weight = sparse_mixer_weight(logits, choice, static_cast<int>(best), router.jitter);
      } else if (router.weight == RouterWeight::kLogit) {
        weight = logits[best];
      }
      weights.push_back(weight);
      choice[static_cast<size_t>(best)] = -std::numeric_limits<double>::infinity();
    }
    double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    if (router.weight == RouterWeight::kNormalized) sum = std::max(sum, double{router.min_sum});
    const bool divides = router.weight == RouterWeight::kNormalized ||
                         router.weight == RouterWeight::kSoftmaxOfChosen;
    for (size_t j = 0; j < k; ++j) {
      double weight = weights[j] / (divides ? sum : 1.0) * router.scale;
      if (params.expert_scale != nullptr) weight *= params.expert_scale[ids[j]];
      if (params.chosen_logits != nullptr) {
        params.chosen_logits[t] = static_cast<float>(weight);
        weight = 1.0;
      }
      params.expert_weights[t * router.experts_per_token + static_cast<int64_t>(j)] =
          static_cast<float>(weight);
    }
  }
}

void run_experts(const RunExpertsParams& params, std::span<const DenseExpert> dense) {
  const int64_t hidden_size = params.experts.front().down->spec.n;
  const int64_t expert_size = params.experts.front().up->spec.n;
  const ExpertActivation& act = params.activation;
  std::vector<float> gate(static_cast<size_t>(expert_size)), up(gate), h(gate);
  std::vector<float> y(static_cast<size_t>(hidden_size));
  const auto multiply = [](const PackedWeight* weight, const float* bias, const float* matrix,
                           const float* x, float* out) {
    linear({.x = x,
            .x_stride = weight->spec.k,
            .weight = weight,
            .bias = bias,
            .y = out,
            .y_stride = weight->spec.n,
            .num_rows = 1},
           matrix, DType::kF32);
  };
  for (int64_t t = 0; t < params.num_tokens; ++t) {
    std::vector<double> sums(static_cast<size_t>(hidden_size), 0.0);
    for (int32_t j = 0; j < params.experts_per_token; ++j) {
      const int64_t slot = t * params.experts_per_token + j;
      const auto id = static_cast<size_t>(params.expert_ids[slot]);
      const ExpertWeights& expert = params.experts[id];
      const float* x = params.x + t * hidden_size;
      multiply(expert.up, expert.up_bias, dense[id].up, x, up.data());
      if (expert.gate != nullptr)
        multiply(expert.gate, expert.gate_bias, dense[id].gate, x, gate.data());
      for (size_t i = 0; i < up.size(); ++i) {
        if (act.has_clamp) {
          gate[i] = std::min(gate[i], act.limit);
          up[i] = std::clamp(up[i], -act.limit, act.limit) + 1.0f;
        }
        float* in = expert.gate != nullptr ? &gate[i] : &up[i];
        activation({.x = in,
                    .out = &h[i],
                    .activation = act.activation,
                    .gated = false,
                    .num_tokens = 1,
                    .ffn_size = 1});
        if (expert.gate != nullptr) h[i] *= up[i];
      }
      multiply(expert.down, expert.down_bias, dense[id].down, h.data(), y.data());
      for (size_t i = 0; i < y.size(); ++i) sums[i] += double{params.expert_weights[slot]} * y[i];
    }
    for (int64_t i = 0; i < hidden_size; ++i) {
      float& out = params.out[t * hidden_size + i];
      out = static_cast<float>(sums[static_cast<size_t>(i)] + (params.accumulate ? out : 0.0f));
    }
  }
}

}  // namespace quire::ref
