#include "sample/logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace quire {
namespace {

int32_t rank_of(const ScannedRow& row, size_t token) {
  const float value = row.row[token];
  int32_t before = 0;
  for (size_t c = 0; c < row.chunk_max.size(); ++c) {
    if (row.chunk_max[c] < value) continue;
    for (const float x : row.chunk(c)) before += x > value ? 1 : 0;
  }
  for (const float x : row.row.first(token)) before += x == value ? 1 : 0;
  return before + 1;
}

// Selects the tokens of `token_ids`, each once, in the order of select_top().
void select_given(const ScannedRow& row, std::span<const TokenId> token_ids,
                  std::vector<Candidate>& out) {
  out.clear();
  for (const TokenId id : token_ids) out.push_back({row.row[static_cast<size_t>(id)], id});
  std::sort(out.begin(), out.end(), ranks_before);
  const auto same_token = [](const Candidate& a, const Candidate& b) {
    return a.token_id == b.token_id;
  };
  out.erase(std::unique(out.begin(), out.end(), same_token), out.end());
}

}  // namespace

TokenLogprobs compute_logprobs(RowScanner& scanner, const ScannedRow& row, TokenId token_id,
                               const LogprobAlternatives& alternatives,
                               std::vector<Candidate>& scratch) {
  QUIRE_CHECK(token_id >= 0 && static_cast<size_t>(token_id) < row.row.size(),
              "token {} of a row of {}", token_id, row.row.size());
  const auto token = static_cast<size_t>(token_id);
  const float max = row.max();
  const double log_total =
      static_cast<double>(max) +
      std::log(scanner.exp_total(row, {.max = max}, -std::numeric_limits<float>::infinity()));
  const auto logprob = [log_total](float logit) {
    return static_cast<float>(static_cast<double>(logit) - log_total);
  };
  TokenLogprobs result;
  result.token_id = token_id;
  result.logprob = logprob(row.row[token]);
  result.rank = rank_of(row, token);
  const int32_t num_top = alternatives.num_top;
  if (!alternatives.token_ids.empty()) {
    select_given(row, alternatives.token_ids, scratch);
  } else if (num_top != 0) {
    select_top(row, num_top < 0 ? static_cast<int32_t>(row.row.size()) : num_top, scratch);
  } else {
    return result;
  }
  result.top.reserve(scratch.size());
  for (const Candidate& c : scratch) result.top.emplace_back(c.token_id, logprob(c.value));
  return result;
}

}  // namespace quire
