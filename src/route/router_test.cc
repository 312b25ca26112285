#include "route/router.h"

#include <gtest/gtest.h>

#include <vector>

namespace quire {
namespace {

constexpr RouteSpeed kSpeed{.prefill_us_per_token = 50,
                            .decode_us_per_request = 10,
                            .decode_us_per_context_token = 0.05,
                            .step_us = 5000,
                            .kv_tokens = 400'000};

std::vector<RouteTarget> idle_targets(int32_t count) {
  std::vector<RouteTarget> targets;
  for (int32_t i = 0; i < count; ++i)
    targets.push_back({.replica = i, .name = static_cast<uint32_t>(i), .speed = &kSpeed});
  return targets;
}

void add_requests(RouteTarget& target, int32_t count, int32_t prompt_tokens) {
  target.load.num_requests += count;
  target.load.num_prompt_tokens += int64_t{count} * prompt_tokens;
  target.load.num_tokens += int64_t{count} * (prompt_tokens + 128);
}

TEST(Router, EveryNameIsRead) {
  for (int i = 0; i <= static_cast<int>(Routing::kOracle); ++i) {
    const auto routing = static_cast<Routing>(i);
    EXPECT_EQ(parse_routing(to_string(routing)).value(), routing);
    EXPECT_NE(routing_names().find(to_string(routing)), std::string::npos);
  }
  EXPECT_EQ(parse_routing("fastest").status().message(),
            "routing: expected " + routing_names() + ", got 'fastest'");
}

TEST(Router, EveryPolicySpreadsOverEqualEngines) {
  for (int i = 0; i <= static_cast<int>(Routing::kOracle); ++i) {
    const auto routing = static_cast<Routing>(i);
    Router router({.routing = routing, .seed = 3});
    std::vector<RouteTarget> targets = idle_targets(4);
    for (int32_t session = 0; session < 400; ++session) {
      const size_t at = router
                            .choose(targets, {.session = session, .prompt_tokens = 1000},
                                    [](int32_t) { return 0; })
                            .target;
      add_requests(targets[at], 1, 1000);
    }
    for (const RouteTarget& target : targets) {
      EXPECT_GT(target.load.num_requests, 60) << to_string(routing);
      EXPECT_LT(target.load.num_requests, 140) << to_string(routing);
    }
  }
}

TEST(Router, LeastDelayFollowsAPrefixWhenNothingIsInTheWay) {
  Router router({.routing = Routing::kLeastDelay});
  const std::vector<RouteTarget> targets = idle_targets(3);
  for (int32_t holder = 0; holder < 3; ++holder) {
    const RouteChoice choice = router.choose(targets, {.prompt_tokens = 4000},
                                             [&](int32_t i) { return i == holder ? 3000 : 0; });
    EXPECT_EQ(choice.target, static_cast<size_t>(holder));
    EXPECT_DOUBLE_EQ(choice.prefill_us, 1000 * 50);
  }
}

TEST(Router, LeastDelayLeavesAPrefixWhoseEngineIsBusier) {
  Router router({.routing = Routing::kLeastDelay});
  std::vector<RouteTarget> targets = idle_targets(2);
  const auto probe = [](int32_t i) { return i == 0 ? 2000 : 0; };
  // The prefills queued there take longer than computing the prefix again elsewhere.
  targets[0].load.prefill_us = 90'000;
  EXPECT_EQ(router.choose(targets, {.prompt_tokens = 2100}, probe).target, 0u);
  targets[0].load.prefill_us = 110'000;
  EXPECT_EQ(router.choose(targets, {.prompt_tokens = 2100}, probe).target, 1u);
}

TEST(Router, LeastDelayCountsWhatOthersLose) {
  Router router({.routing = Routing::kLeastDelay});
  std::vector<RouteTarget> targets = idle_targets(2);
  add_requests(targets[0], 30, 1000);
  add_requests(targets[1], 20, 1000);
  EXPECT_EQ(router.choose(targets, {.prompt_tokens = 500}, [](int32_t) { return 0; }).target, 1u);
  // The cached prefix saves more time than the thirty requests lose by one more.
  EXPECT_EQ(
      router.choose(targets, {.prompt_tokens = 8000}, [](int32_t i) { return i == 0 ? 7900 : 0; })
          .target,
      0u);
}

TEST(Router, LeastDelayAvoidsAFullCache) {
  RouteSpeed small = kSpeed;
  small.kv_tokens = 352'000;
  for (const size_t full : {0u, 1u}) {
    Router router({.routing = Routing::kLeastDelay});
    std::vector<RouteTarget> targets = idle_targets(2);
    targets[full].speed = &small;
    for (RouteTarget& target : targets) add_requests(target, 10, 35'000);
    EXPECT_EQ(router.choose(targets, {.prompt_tokens = 12'000}, [](int32_t) { return 0; }).target,
              1 - full);
  }
}

TEST(Router, LeastDelayGivesFasterEnginesMore) {
  RouteSpeed fast = kSpeed;
  fast.prefill_us_per_token /= 3;
  fast.decode_us_per_request /= 3;
  fast.decode_us_per_context_token /= 3;
  Router router({.routing = Routing::kLeastDelay});
  std::vector<RouteTarget> targets = idle_targets(2);
  targets[1].speed = &fast;
  for (int32_t i = 0; i < 200; ++i) {
    const RouteChoice choice =
        router.choose(targets, {.prompt_tokens = 1000}, [](int32_t) { return 0; });
    add_requests(targets[choice.target], 1, 1000);
  }
  EXPECT_GT(targets[1].load.num_requests, 2 * targets[0].load.num_requests);
}

TEST(Router, SessionsStayTogether) {
  Router router({.routing = Routing::kSession, .seed = 9});
  const std::vector<RouteTarget> targets = idle_targets(5);
  for (int32_t session = 0; session < 50; ++session) {
    const size_t first = router.choose(targets, {.session = session}, {}).target;
    for (int32_t i = 0; i < 3; ++i) {
      EXPECT_EQ(router.choose(targets, {.session = session}, {}).target, first);
    }
  }
}

// The order of the engines does not matter either.
TEST(Router, OnlyTheSessionsOfAnEngineThatGoesMove) {
  Router router({.routing = Routing::kSession});
  const std::vector<RouteTarget> all = idle_targets(5);
  for (size_t gone = 0; gone < all.size(); ++gone) {
    std::vector<RouteTarget> rest(all.rbegin(), all.rend());
    std::erase_if(rest, [&](const RouteTarget& t) { return t.replica == all[gone].replica; });
    std::vector<int32_t> num_moved(all.size());
    for (int32_t session = 0; session < 1000; ++session) {
      const RouteTarget& before = all[router.choose(all, {.session = session}, {}).target];
      const RouteTarget& after = rest[router.choose(rest, {.session = session}, {}).target];
      if (before.replica == all[gone].replica) {
        ++num_moved[static_cast<size_t>(after.replica)];
      } else {
        EXPECT_EQ(after.replica, before.replica);
      }
    }
    for (size_t i = 0; i < all.size(); ++i) {  // the others share them
      if (i == gone) continue;
      EXPECT_GT(num_moved[i], 20);
    }
  }
}

}  // namespace
}  // namespace quire
