// Routers of every kind in api/router.h.
#pragma once

#include <vector>

#include "kernels/api/router.h"

namespace quire::kernel_test {

inline std::vector<RouterSpec> routers() {
  using enum RouterWeight;
  constexpr auto kSigmoid = RouterScore::kSigmoid;
  return {
      {.num_experts = 1, .experts_per_token = 1},
      {.num_experts = 60, .experts_per_token = 4},
      {.num_experts = 128, .experts_per_token = 8, .weight = kNormalized},
      {.num_experts = 8, .experts_per_token = 2, .weight = kNormalized, .min_sum = 0.9f},
      {.num_experts = 32, .experts_per_token = 4, .weight = kSoftmaxOfChosen},
      {.num_experts = 16, .experts_per_token = 2, .weight = kSparseMixer, .jitter = 0.1f},
      {.num_experts = 16, .experts_per_token = 1, .score = kSigmoid, .weight = kLogit},
      {.num_experts = 64,
       .experts_per_token = 6,
       .scale = 16.0f,
       .num_groups = 8,
       .groups_per_token = 3},
      {.num_experts = 256,
       .experts_per_token = 8,
       .score = kSigmoid,
       .weight = kNormalized,
       .min_sum = 1e-20f,
       .scale = 2.5f,
       .num_groups = 8,
       .groups_per_token = 4,
       .group_score = GroupScore::kSumOfTwo},
      {.num_experts = 4,
       .experts_per_token = 4,
       .score = kSigmoid,
       .num_groups = 4,
       .groups_per_token = 4,
       .group_score = GroupScore::kSumOfTwo},
  };
}

// Returns whether the router can have a bias (RouteTokensParams::bias).
inline bool may_have_bias(const RouterSpec& router) {
  return router.weight == RouterWeight::kScore || router.weight == RouterWeight::kNormalized;
}

}  // namespace quire::kernel_test
