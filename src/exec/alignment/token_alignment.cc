#include "exec/alignment/token_alignment.h"

#include <algorithm>
#include <cmath>

#include "exec/alignment/time_warp.h"

namespace quire {
namespace {

// How many tokens read the keys at once.
constexpr size_t kTokens = 4;

// Writes to out [queries, rows] the score of each of the queries with each of `keys` [D, rows].
// Each score is summed by itself, in the order of D.
void score(std::span<const float* const> queries, size_t dim, std::span<const float> keys,
           float scale, std::span<float> out) {
  const size_t num_rows = keys.size() / dim;
  std::fill(out.begin(), out.end(), 0.0f);
  for (size_t i = 0; i < dim; ++i) {
    const float* const key = keys.data() + i * num_rows;
    for (size_t token = 0; token < queries.size(); ++token) {
      const float x = queries[token][i] * scale;
      float* const scores = out.data() + token * num_rows;
      for (size_t row = 0; row < num_rows; ++row) scores[row] += x * key[row];
    }
  }
}

void softmax(std::span<float> out) {
  const float greatest = *std::max_element(out.begin(), out.end());
  double sum = 0.0;
  for (float& x : out) {
    x = std::exp(x - greatest);
    sum += x;
  }
  for (float& x : out) x = static_cast<float>(x / sum);
}

}  // namespace

void TokenAlignment::add(const ScheduledRequest& scheduled, const PoolingParams& params,
                         int64_t first_row, std::vector<float>& queries) {
  const auto size = static_cast<int64_t>(cross_.alignment_heads.size()) * cross_.head_dim;
  const int32_t skipped = std::clamp(params.first_aligned_token - scheduled.num_computed_tokens, 0,
                                     scheduled.num_scheduled_tokens);
  const int64_t count = scheduled.num_scheduled_tokens - skipped;
  const size_t end = queries.size();
  queries.resize(end + static_cast<size_t>(count * size));
  copies_.push_back(
      {.first_token = first_row + skipped, .num_tokens = count, .out = queries.data() + end});
}

// Computes each head by itself, and then their mean in the heads' order.
PooledOutput TokenAlignment::align(std::span<const float> queries, const PoolingParams& params,
                                   const SourceStage& source, const std::string& key) {
  const size_t num_heads = cross_.alignment_heads.size();
  const auto dim = static_cast<size_t>(cross_.head_dim);
  const WarpShape shape{.num_tokens = static_cast<int64_t>(queries.size() / (num_heads * dim)),
                        .num_rows = std::clamp(params.num_aligned_rows, 1, source.num_rows(key))};
  if (shape.num_tokens == 0) return {};
  std::vector<std::vector<float>> of_heads(num_heads);
  const auto weigh = [&](size_t index) {
    const std::vector<float> keys = source.read_keys(key, cross_.alignment_heads[index]);
    const size_t num_keys = keys.size() / dim;
    std::vector<float> scores(kTokens * num_keys);
    std::vector<float>& weights = of_heads[index];
    weights.reserve(static_cast<size_t>(shape.num_tokens * shape.num_rows));
    std::vector<const float*> some;
    for (size_t begin = index * dim; begin < queries.size();) {
      some.clear();
      for (; some.size() < kTokens && begin < queries.size(); begin += num_heads * dim)
        some.push_back(queries.data() + begin);
      score(some, dim, keys, cross_.scale, std::span(scores).first(some.size() * num_keys));
      for (size_t token = 0; token < some.size(); ++token) {
        const std::span<float> line = std::span(scores).subspan(token * num_keys, num_keys);
        softmax(line);
        weights.insert(weights.end(), line.begin(), line.begin() + shape.num_rows);
      }
    }
    sharpen_weights(weights, shape, cross_.alignment_filter_rows);
  };
  team_.deal(static_cast<int64_t>(num_heads), 1, team_.size());
  team_.run([&](int thread) {
    for (WorkRange some = team_.take(thread); some.begin < some.end; some = team_.take(thread)) {
      for (int64_t i = some.begin; i < some.end; ++i) weigh(static_cast<size_t>(i));
    }
  });
  std::vector<float>& mean = of_heads.front();
  for (size_t i = 0; i < mean.size(); ++i) {
    for (size_t head = 1; head < num_heads; ++head) mean[i] += of_heads[head][i];
    mean[i] /= static_cast<float>(num_heads);
  }
  const std::vector<int32_t> rows = first_rows(mean, shape);
  return {.num_columns = 1, .values = {rows.begin(), rows.end()}};
}

}  // namespace quire
