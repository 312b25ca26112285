#include "kernels/api/router.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/testing/router_cases.h"
#include "kernels/testing/test_support.h"

namespace quire {
namespace {

using kernel_test::Host;
using kernel_test::random_floats;

struct Routed {
  std::vector<int32_t> ids;
  std::vector<float> weights;
};

Routed route(Stream& stream, const RouterSpec& router, const std::vector<float>& logits,
             const float* bias, bool reference = false) {
  const auto tokens = static_cast<int64_t>(logits.size()) / router.num_experts;
  const auto pairs = static_cast<size_t>(tokens * router.experts_per_token);
  Routed routed{std::vector<int32_t>(pairs, -1),
                kernel_test::poisoned(static_cast<int64_t>(pairs))};
  const RouteTokensParams params{.logits = logits.data(),
                                 .bias = bias,
                                 .router = router,
                                 .expert_ids = routed.ids.data(),
                                 .expert_weights = routed.weights.data(),
                                 .num_tokens = tokens};
  reference ? ref::route_tokens(params) : route_tokens(stream, params);
  return routed;
}

TEST(Router, ChoosesAndWeighsAsTheReference) {
  Host host(Isa::kPortable);
  for (const RouterSpec& router : kernel_test::routers()) {
    for (const bool has_bias : {false, true}) {
      if (has_bias && !kernel_test::may_have_bias(router)) continue;
      SCOPED_TRACE(::testing::Message()
                   << router.num_experts << " experts, weight " << static_cast<int>(router.weight)
                   << ", bias " << has_bias);
      const auto logits = random_floats(3, int64_t{200} * router.num_experts, 4.0f);
      const auto bias = random_floats(4, router.num_experts, 0.3f);
      const Routed got = route(host.stream, router, logits, has_bias ? bias.data() : nullptr);
      const Routed want =
          route(host.stream, router, logits, has_bias ? bias.data() : nullptr, true);
      EXPECT_EQ(got.ids, want.ids);
      EXPECT_TRUE(kernel_test::close(got.weights.data(), want.weights.data(),
                                     static_cast<int64_t>(want.weights.size()),
                                     1e-6 * router.scale));
    }
  }
}

// Worked by hand: softmax of ln 1, ln 2, ln 3, ln 4 is 0.1, 0.2, 0.3, 0.4.
TEST(Router, KnownWeights) {
  Host host(Isa::kPortable);
  const std::vector<float> logits = {0.0f, std::log(2.0f), std::log(3.0f), std::log(4.0f)};
  const auto weights = [&](RouterSpec router, const float* bias = nullptr) {
    router.num_experts = 4;
    router.experts_per_token = 2;
    return route(host.stream, router, logits, bias);
  };
  const Routed plain = weights({});
  EXPECT_EQ(plain.ids, (std::vector<int32_t>{3, 2}));
  EXPECT_NEAR(plain.weights[0], 0.4f, 1e-6f);
  const Routed normalized = weights({.weight = RouterWeight::kNormalized, .scale = 7.0f});
  EXPECT_NEAR(normalized.weights[0], 4.0f, 1e-5f);
  EXPECT_NEAR(normalized.weights[1], 3.0f, 1e-5f);
  // The bias changes the choice and not the weights.
  const std::vector<float> bias = {1.0f, 0.0f, 0.0f, 0.0f};
  const Routed biased = weights({}, bias.data());
  EXPECT_EQ(biased.ids, (std::vector<int32_t>{0, 3}));
  EXPECT_NEAR(biased.weights[0], 0.1f, 1e-6f);
}

// The logit of a single expert can multiply its input instead of its output.
TEST(Router, ScalesExpertsAndHandsTheLogitOn) {
  Host host(Isa::kPortable);
  const std::vector<float> logits = {1.0f, 3.0f, 2.0f};
  const std::vector<float> scale = {5.0f, 7.0f, 11.0f};
  std::vector<int32_t> ids(2);
  std::vector<float> weights(2);
  RouteTokensParams params{.logits = logits.data(),
                           .router = {.num_experts = 3,
                                      .experts_per_token = 2,
                                      .weight = RouterWeight::kLogit,
                                      .scale = 0.5f},
                           .expert_ids = ids.data(),
                           .expert_weights = weights.data(),
                           .expert_scale = scale.data(),
                           .num_tokens = 1};
  route_tokens(host.stream, params);
  EXPECT_EQ(ids, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(weights, (std::vector<float>{3.0f * 0.5f * 7.0f, 2.0f * 0.5f * 11.0f}));
  float chosen = 0.0f;
  params.router = {.num_experts = 3, .experts_per_token = 1, .weight = RouterWeight::kLogit};
  params.expert_scale = nullptr;
  params.chosen_logits = &chosen;
  route_tokens(host.stream, params);
  EXPECT_EQ(weights[0], 1.0f);
  EXPECT_EQ(chosen, 3.0f);
}

TEST(Router, TheLowestIdGoesFirstAmongEquals) {
  Host host(Isa::kPortable);
  const std::vector<float> logits = {1.0f, 2.0f, 2.0f, 1.0f, 2.0f};
  const Routed routed =
      route(host.stream, {.num_experts = 5, .experts_per_token = 4}, logits, nullptr);
  EXPECT_EQ(routed.ids, (std::vector<int32_t>{1, 2, 4, 0}));
}

TEST(Router, ATokenDoesNotDependOnItsNeighbours) {
  Host host(Isa::kPortable, 3);
  const RouterSpec router{.num_experts = 48, .experts_per_token = 6};
  const auto logits = random_floats(5, int64_t{301} * router.num_experts, 3.0f);
  const Routed all = route(host.stream, router, logits, nullptr);
  for (const int64_t token : {0, 17, 300}) {
    const auto at = logits.begin() + token * router.num_experts;
    const Routed alone = route(host.stream, router, {at, at + router.num_experts}, nullptr);
    EXPECT_TRUE(kernel_test::same_bits(alone.weights.data(), all.weights.data() + token * 6, 6));
    EXPECT_TRUE(std::equal(alone.ids.begin(), alone.ids.end(), all.ids.begin() + token * 6));
  }
}

}  // namespace
}  // namespace quire
