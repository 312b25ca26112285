// Routing takes a few hundred exponentials per token, which is little compared to the experts. So
// it is plain code, the same for every instruction set.
#include "kernels/api/router.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "base/check.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/ops.h"

namespace quire {
namespace {

// With fewer router logits, waking the team costs more than it saves.
constexpr int64_t kRouterLogits = 1 << 12;
constexpr float kNever = -std::numeric_limits<float>::infinity();

void softmax(std::span<const float> logits, float* scores) {
  const float most = *std::max_element(logits.begin(), logits.end());
  float sum = 0.0f;
  for (size_t i = 0; i < logits.size(); ++i) sum += scores[i] = std::exp(logits[i] - most);
  for (size_t i = 0; i < logits.size(); ++i) scores[i] /= sum;
}

// Returns the index of the first of the greatest values.
int32_t find_greatest(std::span<const float> values) {
  return static_cast<int32_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

float group_score(std::span<const float> choice, GroupScore kind) {
  float first = kNever, second = kNever;
  for (const float c : choice) {
    second = std::max(second, std::min(first, c));
    first = std::max(first, c);
  }
  return kind == GroupScore::kSumOfTwo && choice.size() > 1 ? first + second : first;
}

// Applies the rules of api/router.h to one token at a time.
class TokenRouter {
 public:
  explicit TokenRouter(const RouteTokensParams& params)
      : router_(params.router), bias_(params.bias), expert_scale_(params.expert_scale) {}

  void route(const float* logits, int32_t* expert_ids, float* weights) {
    logits_ = {logits, static_cast<size_t>(router_.num_experts)};
    score();
    const auto choice = first(choice_);
    if (router_.num_groups > 1) keep_best_groups(choice);
    float sum = 0.0f;
    for (int32_t j = 0; j < router_.experts_per_token; ++j) {
      const int32_t id = find_greatest(choice);
      expert_ids[j] = id;
      weights[j] = weight_of(id, expert_ids[0]);
      sum += weights[j];
      choice[static_cast<size_t>(id)] = kNever;
    }
    if (router_.weight == RouterWeight::kNormalized) sum = std::max(sum, router_.min_sum);
    const bool divides = router_.weight == RouterWeight::kNormalized ||
                         router_.weight == RouterWeight::kSoftmaxOfChosen;
    for (int32_t j = 0; j < router_.experts_per_token; ++j) {
      if (divides) weights[j] /= sum;
      weights[j] *= router_.scale;
      if (expert_scale_ != nullptr) weights[j] *= expert_scale_[expert_ids[j]];
    }
  }

 private:
  using Values = std::array<float, kMaxExperts>;
  std::span<float> first(Values& values) const {
    return {values.data(), static_cast<size_t>(router_.num_experts)};
  }

  bool chooses_by_logit() const {
    return router_.weight == RouterWeight::kSoftmaxOfChosen ||
           router_.weight == RouterWeight::kSparseMixer || router_.weight == RouterWeight::kLogit;
  }

  void score() {
    const auto choice = first(choice_);
    if (chooses_by_logit()) {
      std::copy(logits_.begin(), logits_.end(), choice.begin());
    } else {
      const auto scores = first(scores_);
      if (router_.score == RouterScore::kSoftmax) {
        softmax(logits_, scores.data());
      } else {
        std::transform(logits_.begin(), logits_.end(), scores.begin(),
                       [](float x) { return 1.0f / (1.0f + std::exp(-x)); });
      }
      std::copy(scores.begin(), scores.end(), choice.begin());
    }
    for (size_t i = 0; i < choice.size() && bias_ != nullptr; ++i) choice[i] += bias_[i];
  }

  void keep_best_groups(std::span<float> choice) {
    const auto num_groups = static_cast<size_t>(router_.num_groups);
    const size_t size = choice.size() / num_groups;
    for (size_t group = 0; group < num_groups; ++group) {
      groups_[group] = group_score(choice.subspan(group * size, size), router_.group_score);
    }
    const std::span<float> groups(groups_.data(), num_groups);
    kept_.fill(false);
    for (int32_t i = 0; i < router_.groups_per_token; ++i) {
      const auto best = static_cast<size_t>(find_greatest(groups));
      kept_[best] = true;
      groups[best] = kNever;
    }
    for (size_t i = 0; i < choice.size(); ++i) {
      if (!kept_[i / size]) choice[i] = kNever;
    }
  }

  // Returns the weight of a chosen expert. `choice_` holds the candidates from which it was chosen.
  float weight_of(int32_t id, int32_t first_id) const {
    const auto at = static_cast<size_t>(id);
    switch (router_.weight) {
      case RouterWeight::kSoftmaxOfChosen:
        return std::exp(logits_[at] - logits_[static_cast<size_t>(first_id)]);
      case RouterWeight::kSparseMixer:
        return sparse_mixer_weight(choice_[at]);
      case RouterWeight::kLogit:
        return logits_[at];
      case RouterWeight::kScore:
      case RouterWeight::kNormalized:
        break;
    }
    return scores_[at];
  }

  float sparse_mixer_weight(float most) const {
    float sum = 0.0f;
    for (size_t i = 0; i < logits_.size(); ++i) {
      const float behind = (most - logits_[i]) / std::max(std::abs(logits_[i]), most);
      if (behind <= 2.0f * router_.jitter) sum += std::exp(choice_[i] - most);
    }
    return 1.0f / sum;
  }

  const RouterSpec& router_;
  const float* bias_;
  const float* expert_scale_;
  std::span<const float> logits_;
  Values scores_;
  Values choice_;
  Values groups_;
  std::array<bool, kMaxExperts> kept_;
};

}  // namespace

void cpu::route_tokens(Stream& stream, const RouteTokensParams& params) {
  const RouterSpec& router = params.router;
  QUIRE_CHECK(router.num_experts >= 1 && router.num_experts <= kMaxExperts &&
                  router.experts_per_token >= 1 && router.experts_per_token <= router.num_experts &&
                  router.num_groups >= 1 && router.num_experts % router.num_groups == 0 &&
                  router.groups_per_token >= 1 && router.groups_per_token <= router.num_groups,
              "[route_tokens] expected a token to choose 1 or more of at most {} experts and 1 or "
              "more of equal groups, got {} of {} experts and {} of {} groups",
              kMaxExperts, router.experts_per_token, router.num_experts, router.groups_per_token,
              router.num_groups);
  const int64_t work = params.num_tokens * router.num_experts;
  cpu::run_parallel(cpu::host(stream), work, kRouterLogits, [&](int thread, int num_threads) {
    const WorkRange mine = split_work(params.num_tokens, 1, thread, num_threads);
    TokenRouter token(params);
    for (int64_t t = mine.begin; t < mine.end; ++t) {
      token.route(params.logits + t * router.num_experts,
                  params.expert_ids + t * router.experts_per_token,
                  params.expert_weights + t * router.experts_per_token);
      if (params.chosen_logits != nullptr)
        params.chosen_logits[t] = std::exchange(params.expert_weights[t], 1.0f);
    }
  });
}

}  // namespace quire
