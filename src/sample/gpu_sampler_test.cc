// Compares the sampler of a GPU with sample/sampler.h: tokens and logprobs must be equal for random
// requests. Runs on the emulated device, and on a GPU if there is one.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "kernels/cuda/test/test_device.h"
#include "sample/device_rows.h"
#include "sample/sampler.h"

namespace quire {
namespace {

struct Case {
  SamplingParams params;
  std::vector<float> logits;
  std::vector<TokenId> token_ids;  // prompt, then output
  int32_t num_prompt = 1;
  std::vector<uint32_t> token_mask = {};

  int32_t num_output() const { return static_cast<int32_t>(token_ids.size()) - num_prompt; }
  int32_t position() const { return static_cast<int32_t>(token_ids.size()); }
  SamplerState state() const { return {params, token_ids, num_prompt}; }
};

constexpr int32_t kMaxLogprobs = 12;

class GpuSampler : public gpu_test::GpuTest {
 protected:
  struct Outcome {
    std::vector<SampledToken> tokens;
    std::vector<TokenId> top_ids;
    std::vector<float> top_logprobs;
  };

  // Counts the tokens of each case in the slot with its number.
  uint32_t* count(const std::vector<Case>& cases, int64_t vocab) {
    auto* counts = upload(std::vector<uint32_t>(cases.size() * static_cast<size_t>(vocab), 0));
    for (const bool in_prompt : {true, false}) {
      std::vector<int32_t> slots;
      std::vector<TokenId> ids;
      for (size_t i = 0; i < cases.size(); ++i) {
        const auto split = cases[i].token_ids.begin() + cases[i].num_prompt;
        ids.insert(ids.end(), in_prompt ? cases[i].token_ids.begin() : split,
                   in_prompt ? split : cases[i].token_ids.end());
        slots.resize(ids.size(), static_cast<int32_t>(i));
      }
      slots.push_back(-1);  // padding
      ids.push_back(0);
      count_tokens(stream(), {.token_counts = counts,
                              .slots = upload(slots),
                              .token_ids = upload(ids),
                              .num_tokens = static_cast<int64_t>(ids.size()),
                              .vocab_size = vocab,
                              .in_prompt = in_prompt});
    }
    return counts;
  }

  Outcome run(const std::vector<Case>& cases, TokenId forced_token = -1) {
    const auto vocab = static_cast<int64_t>(cases[0].logits.size());
    DeviceRows rows(vocab);
    std::vector<float> logits;
    for (size_t i = 0; i < cases.size(); ++i) {
      const SamplerState state = cases[i].state();
      rows.add({.params = cases[i].params,
                .position = cases[i].position(),
                .num_output_tokens = cases[i].num_output(),
                .recent_output = state.recent_output(),
                .counts_slot = static_cast<int32_t>(i),
                .forced_token = forced_token,
                .num_logprobs = cases[i].params.logprobs.value_or(-1),
                .token_mask = cases[i].token_mask});
      logits.insert(logits.end(), cases[i].logits.begin(), cases[i].logits.end());
    }
    const auto n = static_cast<int64_t>(cases.size());
    SampleRowsParams p{
        .logits = upload(logits),
        .rows = upload(rows.rows),
        .num_rows = n,
        .vocab_size = vocab,
        .processed = static_cast<float*>(poisoned(n * vocab * 4)),
        .allowed_masks = upload(rows.allowed_masks),
        .token_masks = upload(rows.token_masks),
        .token_counts = count(cases, vocab),
        .bias_ids = upload(rows.bias_ids),
        .bias_values = upload(rows.bias_values),
        .forbidden_ids = upload(rows.forbidden_ids),
        .bad_word_starts = upload(rows.bad_word_starts),
        .bad_word_ids = upload(rows.bad_word_ids),
        .recent_ids = upload(rows.recent_ids),
        .out = static_cast<SampledToken*>(poisoned(n * int64_t{sizeof(SampledToken)})),
        .max_logprobs = kMaxLogprobs,
        .top_ids = static_cast<TokenId*>(poisoned(n * kMaxLogprobs * 4)),
        .top_logprobs = static_cast<float*>(poisoned(n * kMaxLogprobs * 4))};
    sample_rows(stream(), p);
    return {download<SampledToken>(p.out, n), download<TokenId>(p.top_ids, n * kMaxLogprobs),
            download<float>(p.top_logprobs, n * kMaxLogprobs)};
  }

  // Expects every case to have the result of the CPU's sampler.
  void expect_same(const std::vector<Case>& cases) {
    const Outcome got = run(cases);
    Sampler sampler;
    for (size_t i = 0; i < cases.size(); ++i) {
      SCOPED_TRACE(i);
      const Case& c = cases[i];
      const SamplerState state = c.state();
      const auto want = sampler.sample({.logits = c.logits,
                                        .params = c.params,
                                        .state = state,
                                        .position = c.position(),
                                        .num_output_tokens = c.num_output(),
                                        .token_mask = c.token_mask});
      if (!want.ok()) {
        EXPECT_EQ(got.tokens[i].status, want.status().code() == StatusCode::kInternal
                                            ? SampleStatus::kNotFinite
                                            : SampleStatus::kAllForbidden);
        continue;
      }
      ASSERT_EQ(got.tokens[i].status, SampleStatus::kOk);
      ASSERT_EQ(got.tokens[i].token_id, want->token_id);
      if (want->logprobs) expect_logprobs(got, i, *want->logprobs);
    }
  }

  static void expect_logprobs(const Outcome& got, size_t row, const TokenLogprobs& want) {
    EXPECT_EQ(got.tokens[row].logprob, want.logprob);
    EXPECT_EQ(got.tokens[row].rank, want.rank);
    for (size_t j = 0; j < want.top.size(); ++j) {
      const size_t at = row * kMaxLogprobs + j;
      EXPECT_EQ(got.top_ids[at], want.top[j].first) << j;
      EXPECT_EQ(got.top_logprobs[at], want.top[j].second) << j;
    }
  }
};

// Counts sampled tokens, and those of one slot.
TEST_F(GpuSampler, CountsTokensOfEveryForm) {
  constexpr int64_t kVocab = 7;
  auto* counts = upload(std::vector<uint32_t>(3 * kVocab, 0));
  const std::vector<SampledToken> sampled{{.token_id = 5}, {.token_id = 2}, {.token_id = -1}};
  const SampledToken* tokens = upload(sampled);
  count_tokens(stream(), {.token_counts = counts,
                          .slots = upload(std::vector<int32_t>{2, -1, 0}),
                          .token_ids = &tokens->token_id,
                          .token_stride = kSampledStride,
                          .num_tokens = 3,
                          .vocab_size = kVocab});
  count_tokens(stream(), {.token_counts = counts,
                          .slot = 1,
                          .token_ids = upload(std::vector<TokenId>{3, 3, 6, 9}),
                          .num_tokens = 4,
                          .vocab_size = kVocab});
  count_tokens(stream(), {.token_counts = counts,
                          .slot = 1,
                          .token_ids = upload(std::vector<TokenId>{6, 0, 0}),
                          .num_tokens = 3,
                          .vocab_size = kVocab,
                          .in_prompt = true});
  std::vector<uint32_t> want(3 * kVocab, 0);
  want[2 * kVocab + 5] = 1;
  want[kVocab + 3] = 2;
  want[kVocab + 6] = kInPrompt | 1;
  want[kVocab] = kInPrompt;
  EXPECT_EQ(download<uint32_t>(counts, 3 * kVocab), want);
}

using Rng = std::mt19937;

int32_t below(Rng& rng, int64_t n) {
  return static_cast<int32_t>(rng() % static_cast<uint64_t>(n));
}

std::vector<float> random_row(Rng& rng, size_t size) {
  std::normal_distribution<float> normal(0, 0.02f + static_cast<float>(rng() % 60) / 10);
  std::vector<float> row(size);
  for (float& x : row) x = normal(rng);
  if (rng() % 4 == 0) {
    for (float& x : row) x = std::round(x * 2) / 2;  // ties
  }
  return row;
}

// Returns random parameters, each of which one request in a few has.
SamplingParams random_params(Rng& rng, int64_t vocab) {
  SamplingParams params;
  params.seed = uint64_t{rng()} << 32 | rng();
  params.temperature = rng() % 4 == 0 ? 0.0f : 0.05f + static_cast<float>(rng() % 40) / 20;
  if (rng() % 2) params.top_p = static_cast<float>(1 + rng() % 99) / 100;
  if (rng() % 3 == 0) params.top_k = 1 + below(rng, 2 * vocab);
  if (rng() % 3 == 0) params.min_p = static_cast<float>(rng() % 100) / 1000;
  if (rng() % 4 == 0) params.presence_penalty = static_cast<float>(rng() % 40) / 20 - 1;
  if (rng() % 4 == 0) params.frequency_penalty = static_cast<float>(rng() % 40) / 20 - 1;
  if (rng() % 4 == 0) params.repetition_penalty = 0.5f + static_cast<float>(rng() % 30) / 20;
  if (rng() % 4 == 0) {
    for (int i = 0; i < 6; ++i)
      params.logit_bias.emplace_back(below(rng, vocab + 2) - 1, static_cast<float>(rng() % 9) - 4);
    params.logit_bias.push_back(params.logit_bias.front());  // the same token twice
  }
  if (rng() % 5 == 0) {
    params.allowed_token_ids.emplace();
    for (int64_t i = 0; i < 1 + vocab / 3; ++i)
      params.allowed_token_ids->push_back(below(rng, vocab + 2) - 1);
  }
  if (rng() % 4 == 0) {
    params.min_tokens = 4;
    params.eos_token_ids = {below(rng, vocab), below(rng, vocab)};
    params.stop_token_ids = {below(rng, vocab)};
  }
  if (rng() % 2 == 0) params.logprobs = below(rng, kMaxLogprobs + 1);
  return params;
}

Case random_case(Rng& rng, int64_t vocab) {
  Case c;
  c.params = random_params(rng, vocab);
  c.logits = random_row(rng, static_cast<size_t>(vocab));
  c.num_prompt = 1 + below(rng, 20);
  const int32_t tokens = c.num_prompt + below(rng, 8);
  for (int32_t i = 0; i < tokens; ++i)
    c.token_ids.push_back(below(rng, std::min<int64_t>(vocab, 40)));
  if (rng() % 4 == 0) {
    // A bad word that the output may complete, one that it does not, and one of a single token.
    const auto tail = c.token_ids.end() - std::min<int32_t>(2, c.num_output());
    std::vector<TokenId> word(tail, c.token_ids.end());
    word.push_back(below(rng, vocab));
    c.params.bad_words = {word, {below(rng, vocab), below(rng, vocab)}, {below(rng, vocab)}};
  }
  if (rng() % 3 == 0) {
    const auto word = [&rng] { return static_cast<uint32_t>(rng()); };
    const uint32_t density = word() % 3;  // of the mask: sparse, half, dense
    for (int64_t i = 0; i < (vocab + 31) / 32; ++i) {
      const uint32_t bits = word();
      c.token_mask.push_back(density == 0   ? bits & word() & word()
                             : density == 1 ? bits
                                            : bits | word());
    }
  }
  return c;
}

TEST_F(GpuSampler, ChoosesTheTokensOfTheCpuForAnyParameters) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const int64_t vocab = 1 + rng() % (seed % 10 == 0 ? 9000 : 700);
    std::vector<Case> cases;
    for (int i = 0; i < 6; ++i) cases.push_back(random_case(rng, vocab));
    expect_same(cases);
    if (HasFatalFailure()) return;
  }
}

TEST_F(GpuSampler, ChoosesTheTokensOfTheCpuOverWholeVocabularies) {
  for (const int64_t vocab : {32000, 151936}) {
    SCOPED_TRACE(vocab);
    Rng rng(static_cast<uint32_t>(vocab));
    Case nucleus{.logits = random_row(rng, static_cast<size_t>(vocab)), .token_ids = {1}};
    nucleus.params.top_p = 0.9f;
    nucleus.params.seed = 3;
    nucleus.params.logprobs = 5;
    Case penalized = random_case(rng, vocab);
    penalized.params.repetition_penalty = 1.1f;
    penalized.params.temperature = 0.7f;
    Case plain = nucleus;
    plain.params = {};
    expect_same({nucleus, penalized, plain});
  }
}

// The cut falls among values that differ by an ulp or not at all.
TEST_F(GpuSampler, CutsFlatRowsWhereTheCpuDoes) {
  for (const float step : {0.0f, 1e-7f, 1e-4f, 0.5f}) {
    std::vector<Case> cases;
    for (const int32_t top_k : {0, 1, 63, 64, 500}) {
      Case c{.logits = std::vector<float>(777), .token_ids = {5, 6}};
      for (size_t i = 0; i < c.logits.size(); ++i)
        c.logits[i] = 1.0f + step * static_cast<float>(i * 37 % 777);
      c.params.top_k = top_k;
      c.params.top_p = top_k == 0 ? 0.333f : 1.0f;
      c.params.logprobs = kMaxLogprobs;
      c.params.seed = static_cast<uint64_t>(top_k);
      cases.push_back(c);
    }
    SCOPED_TRACE(step);
    expect_same(cases);
  }
}

TEST_F(GpuSampler, BadRowsFailAloneAndTheRestIsSampled) {
  Rng rng(1);
  std::vector<Case> cases(6, Case{.logits = random_row(rng, 130), .token_ids = {3}});
  cases[1].logits[129] = std::nanf("");
  cases[2].logits[0] = HUGE_VALF;
  cases[3].logits[77] = -HUGE_VALF;
  cases[3].params.logit_bias = {{77, 5.0f}};  // also compares the cut with a bias
  cases[4].params.allowed_token_ids = {2};
  cases[4].params.eos_token_ids = {2};
  cases[4].params.min_tokens = 1;
  expect_same(cases);
}

// The result of a row must not depend on the rows beside it (law L4).
TEST_F(GpuSampler, ARowAloneGivesTheSameBits) {
  Rng rng(8);
  std::vector<Case> cases;
  for (int i = 0; i < 5; ++i) cases.push_back(random_case(rng, 901));
  const Outcome together = run(cases);
  for (size_t i = 0; i < cases.size(); ++i) {
    const Outcome alone = run({cases[i]});
    EXPECT_EQ(alone.tokens[0].token_id, together.tokens[i].token_id);
    EXPECT_EQ(alone.tokens[0].logprob, together.tokens[i].logprob);
  }
}

TEST_F(GpuSampler, ForcedTokensGetTheirLogprobs) {
  Rng rng(2);
  Case c{.logits = random_row(rng, 500), .token_ids = {3}};
  c.params.logprobs = 3;
  c.params.repetition_penalty = 1.5f;
  const Outcome got = run({c}, 77);
  Sampler sampler;
  const auto want = sampler.logprobs(c.logits, 77, 3);
  ASSERT_TRUE(want.ok());
  EXPECT_EQ(got.tokens[0].token_id, 77);
  expect_logprobs(got, 0, *want);
}

}  // namespace
}  // namespace quire
