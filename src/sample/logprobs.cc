#include "sample/logprobs.h"

#include <cmath>

#include "base/check.h"
#include "sample/vector_math.h"

namespace quire {
namespace {

int32_t rank_of(std::span<const float> row, TokenId token_id) {
  const float value = row[static_cast<size_t>(token_id)];
  int32_t before = 0;
  for (const float x : row) before += x > value ? 1 : 0;
  for (const float x : row.first(static_cast<size_t>(token_id))) before += x == value ? 1 : 0;
  return before + 1;
}

}  // namespace

double log_sum_exp(std::span<const float> row) {
  const float max = max_of(row);
  return static_cast<double>(max) +
         std::log(lane_sum(row, [max](float x) { return exp_nonpositive(x - max); }));
}

TokenLogprobs compute_logprobs(std::span<const float> row, TokenId token_id, int32_t num_top,
                               std::vector<Candidate>& scratch) {
  QUIRE_CHECK(token_id >= 0 && static_cast<size_t>(token_id) < row.size(),
              "token {} of a row of {}", token_id, row.size());
  const double log_total = log_sum_exp(row);
  const auto logprob = [log_total](float logit) {
    return static_cast<float>(static_cast<double>(logit) - log_total);
  };
  TokenLogprobs result;
  result.token_id = token_id;
  result.logprob = logprob(row[static_cast<size_t>(token_id)]);
  result.rank = rank_of(row, token_id);
  if (num_top == 0) return result;
  select_top(row, num_top < 0 ? static_cast<int32_t>(row.size()) : num_top, scratch);
  result.top.reserve(scratch.size());
  for (const Candidate& c : scratch) result.top.emplace_back(c.token_id, logprob(c.value));
  return result;
}

}  // namespace quire
