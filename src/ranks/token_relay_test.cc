// Compares the relay with a model that stores for every request when it was sent.
#include "ranks/token_relay.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>

namespace quire {
namespace {

TEST(TokenRelay, TokensOfRequestsThatWereSentAnewAreLeftOut) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto chance = [&](uint32_t of) { return random() % of == 0; };
    struct Step {
      uint64_t number;
      std::map<uint64_t, int> incarnations;  // of its requests
    };
    TokenRelay relay;
    std::map<uint64_t, int> live;  // request: how often it was sent
    std::map<uint64_t, int> sent;
    std::deque<Step> under_way;
    std::map<uint64_t, std::vector<TokenId>> want;
    TokenId token = 0;
    for (int round = 0; round < 100; ++round) {
      StepPlan plan;
      Step step;
      for (auto at = live.begin(); at != live.end();) {
        if (!chance(5)) {
          ++at;
          continue;
        }
        plan.dropped.emplace_back(at->first);
        at = live.erase(at);
      }
      for (uint64_t id = 1; id <= 6; ++id) {
        if (!live.contains(id) && chance(3)) {
          plan.new_requests.push_back({.id = RequestId(id)});
          live[id] = ++sent[id];
        }
        if (live.contains(id) && chance(2)) step.incarnations[id] = live[id];
      }
      step.number = relay.add_step(plan);
      std::map<uint64_t, std::vector<TokenId>> got;
      for (const RequestStepResult& result : relay.take()) {
        auto& tokens = got[result.id.value];
        tokens.insert(tokens.end(), result.sampled_token_ids.begin(),
                      result.sampled_token_ids.end());
      }
      EXPECT_EQ(got, want) << seed;
      want.clear();
      under_way.push_back(std::move(step));
      while (under_way.size() > 2 || (!under_way.empty() && chance(3))) {
        StepResult result;
        for (const auto& [id, incarnation] : under_way.front().incarnations) {
          RequestStepResult& one = result.requests.emplace_back();
          one.id = RequestId(id);
          one.sampled_token_ids = {++token};
          if (live.contains(id) && live[id] == incarnation) want[id].push_back(token);
        }
        relay.add_result(under_way.front().number, result);
        under_way.pop_front();
      }
    }
  }
}

}  // namespace
}  // namespace quire
