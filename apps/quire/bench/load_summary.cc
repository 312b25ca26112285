#include <algorithm>
#include <cmath>
#include <vector>

#include "quire/bench/load_generator.h"

namespace quire::bench {
namespace {

double quantile(const std::vector<double>& sorted, double q) {
  if (sorted.empty()) return 0.0;
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (position - static_cast<double>(below));
}

double tpot_s(const RequestRecord& r) {
  return r.output_tokens > 1 ? (r.e2el_s - r.ttft_s) / (r.output_tokens - 1) : 0.0;
}

bool meets(const RequestRecord& r, const GoodputLimits& limits) {
  return r.error.empty() && (!limits.ttft_ms || r.ttft_s * 1e3 <= *limits.ttft_ms) &&
         (!limits.tpot_ms || tpot_s(r) * 1e3 <= *limits.tpot_ms) &&
         (!limits.e2el_ms || r.e2el_s * 1e3 <= *limits.e2el_ms);
}

// Cuts the run into equal spans of at least one second, counts each chunk when it arrived, and
// returns the tokens per second of the best span. Equal spans cover the run, so the best of them is
// never below the mean.
double peak_output_rate(const LoadResult& result) {
  const auto num_spans = static_cast<size_t>(std::clamp(result.duration_s, 1.0, 1e6));
  const double span_s = std::max(result.duration_s, 1e-9) / static_cast<double>(num_spans);
  std::vector<double> tokens_in_span(num_spans);
  for (const RequestRecord& r : result.requests) {
    if (!r.error.empty() || r.output_tokens == 0) continue;
    const double tokens_per_chunk = r.output_tokens / (1.0 + static_cast<double>(r.itl_s.size()));
    const auto count_at = [&](double at_s) {
      const double span = std::clamp(at_s / span_s, 0.0, static_cast<double>(num_spans - 1));
      tokens_in_span[static_cast<size_t>(span)] += tokens_per_chunk;
    };
    double at_s = r.start_s + r.ttft_s;
    count_at(at_s);
    for (const double gap : r.itl_s) count_at(at_s += gap);
  }
  return *std::max_element(tokens_in_span.begin(), tokens_in_span.end()) / span_s;
}

}  // namespace

Distribution distribution(std::vector<double> values) {
  Distribution d;
  if (values.empty()) return d;
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  for (const double v : values) d.mean += v / n;
  for (const double v : values) d.std += (v - d.mean) * (v - d.mean) / n;
  d.std = std::sqrt(d.std);
  d.median = quantile(values, 0.5);
  d.p90 = quantile(values, 0.9);
  d.p99 = quantile(values, 0.99);
  return d;
}

LoadSummary summarize(const LoadResult& result, const GoodputLimits& limits) {
  LoadSummary s;
  std::vector<double> ttft, tpot, itl, e2el;
  int32_t num_good = 0;
  for (const RequestRecord& r : result.requests) {
    if (!r.error.empty()) {
      ++s.failed;
      continue;
    }
    ++s.completed;
    s.input_tokens += r.input_tokens;
    s.output_tokens += r.output_tokens;
    ttft.push_back(r.ttft_s * 1e3);
    e2el.push_back(r.e2el_s * 1e3);
    if (r.output_tokens > 1) tpot.push_back(tpot_s(r) * 1e3);
    for (const double gap : r.itl_s) itl.push_back(gap * 1e3);
    num_good += meets(r, limits) ? 1 : 0;
  }
  s.ttft_ms = distribution(std::move(ttft));
  s.tpot_ms = distribution(std::move(tpot));
  s.itl_ms = distribution(std::move(itl));
  s.e2el_ms = distribution(std::move(e2el));
  const double seconds = std::max(result.duration_s, 1e-9);
  s.request_throughput = s.completed / seconds;
  s.output_throughput = static_cast<double>(s.output_tokens) / seconds;
  s.total_token_throughput = static_cast<double>(s.input_tokens + s.output_tokens) / seconds;
  s.peak_output_tokens_per_s = peak_output_rate(result);
  if (limits.any()) s.request_goodput = num_good / seconds;
  return s;
}

}  // namespace quire::bench
