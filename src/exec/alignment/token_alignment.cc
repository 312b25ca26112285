#include "exec/alignment/token_alignment.h"

#include <algorithm>
#include <cmath>

#include "exec/alignment/time_warp.h"

namespace quire {
namespace {

// Softmax of what `query` [D] scores with each of `keys` [D, rows], into out [rows].
void attend(std::span<const float> query, std::span<const float> keys, float scale,
            std::span<float> out) {
  std::fill(out.begin(), out.end(), 0.0f);
  for (size_t i = 0; i < query.size(); ++i) {
    const float x = query[i] * scale;
    const float* const key = keys.data() + i * out.size();
    for (size_t row = 0; row < out.size(); ++row) out[row] += x * key[row];
  }
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

// Each head by itself, then their mean, in the heads' order.
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
    std::vector<float> scores(keys.size() / dim);
    std::vector<float>& weights = of_heads[index];
    for (size_t begin = index * dim; begin < queries.size(); begin += num_heads * dim) {
      attend(queries.subspan(begin, dim), keys, cross_.scale, scores);
      weights.insert(weights.end(), scores.begin(), scores.begin() + shape.num_rows);
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
