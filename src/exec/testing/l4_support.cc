#include "exec/testing/l4_support.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>

namespace quire::test {
namespace {

void expect_same_bits(const TokenLogprobs& a, const TokenLogprobs& b) {
  ASSERT_EQ(a.token_id, b.token_id);
  ASSERT_EQ(std::bit_cast<uint32_t>(a.logprob), std::bit_cast<uint32_t>(b.logprob));
  ASSERT_EQ(a.rank, b.rank);
  ASSERT_EQ(a.top.size(), b.top.size());
  for (size_t i = 0; i < a.top.size(); ++i) {
    ASSERT_EQ(a.top[i].first, b.top[i].first);
    ASSERT_EQ(std::bit_cast<uint32_t>(a.top[i].second), std::bit_cast<uint32_t>(b.top[i].second));
  }
}

}  // namespace

DriverRequest make_request(uint64_t id, uint32_t seed, int32_t num_prompt_tokens) {
  std::mt19937 random(seed);
  DriverRequest request{.id = id};
  for (int32_t i = 0; i < num_prompt_tokens; ++i) {
    request.prompt.push_back(static_cast<TokenId>(random() % 160));
  }
  request.params.max_tokens = kOutputTokens;
  request.params.temperature = 0.9f;
  request.params.top_p = 0.95f;
  request.params.repetition_penalty = 1.1f;
  request.params.seed = seed;
  request.params.logprobs = 5;
  return request;
}

std::vector<DriverRequest> make_crowd(uint64_t first_id, size_t place) {
  std::vector<DriverRequest> crowd;
  for (uint32_t i = 0; i < 32; ++i) {
    crowd.push_back(
        make_request(first_id + 1 + i, 1000 + i, 1 + static_cast<int32_t>(i * 37 % 90)));
  }
  crowd.insert(crowd.begin() + static_cast<std::ptrdiff_t>(place),
               make_request(first_id, 5, kPromptTokens));
  return crowd;
}

void expect_same_bits(const DriverOutput& got, const DriverOutput& want, const std::string& what) {
  SCOPED_TRACE(what);
  ASSERT_TRUE(got.status.ok()) << got.status.message();
  ASSERT_EQ(got.token_ids, want.token_ids);
  ASSERT_EQ(got.logprobs.size(), want.logprobs.size());
  ASSERT_EQ(got.prompt_logprobs.size(), want.prompt_logprobs.size());
  for (size_t i = 0; i < got.logprobs.size(); ++i)
    expect_same_bits(got.logprobs[i], want.logprobs[i]);
  for (size_t i = 0; i < got.prompt_logprobs.size(); ++i) {
    expect_same_bits(got.prompt_logprobs[i], want.prompt_logprobs[i]);
  }
}

}  // namespace quire::test
