#include <gtest/gtest.h>

#include "quire/bench/load_generator.h"

namespace quire::bench {
namespace {

RequestRecord record(double ttft_s, double e2el_s, int32_t output_tokens,
                     std::vector<double> itl_s) {
  RequestRecord r;
  r.ttft_s = ttft_s;
  r.e2el_s = e2el_s;
  r.output_tokens = output_tokens;
  r.input_tokens = 10;
  r.itl_s = std::move(itl_s);
  return r;
}

TEST(LoadSummary, FiguresFollowTheirDefinitions) {
  LoadResult result;
  result.duration_s = 2.0;
  result.requests = {record(0.1, 0.5, 5, {0.1, 0.1, 0.1, 0.1}), record(0.3, 0.3, 1, {})};
  RequestRecord failed;
  failed.error = "HTTP 429";
  result.requests.push_back(failed);
  const LoadSummary s = summarize(result, {.ttft_ms = 200.0, .tpot_ms = {}, .e2el_ms = {}});
  EXPECT_EQ(s.completed, 2);
  EXPECT_EQ(s.failed, 1);
  EXPECT_EQ(s.output_tokens, 6);
  EXPECT_DOUBLE_EQ(s.output_throughput, 3.0);
  EXPECT_DOUBLE_EQ(s.total_token_throughput, 13.0);
  EXPECT_DOUBLE_EQ(s.ttft_ms.median, 200.0);
  EXPECT_NEAR(s.tpot_ms.mean, 100.0, 1e-9);  // the request of one token is left out
  EXPECT_NEAR(s.itl_ms.p99, 100.0, 1e-9);
  ASSERT_TRUE(s.request_goodput);
  EXPECT_DOUBLE_EQ(*s.request_goodput, 0.5);  // only the first meets the limit
}

// This must hold for a run of any length, whose last second is usually not whole.
TEST(LoadSummary, PeakIsNeverBelowTheMean) {
  for (const double duration_s : {0.2, 0.9, 1.0, 1.5, 1.999, 2.0, 3.7, 10.01}) {
    LoadResult result;
    result.duration_s = duration_s;
    const double gap_s = duration_s / 20;
    result.requests = {record(gap_s / 2, duration_s, 20, std::vector<double>(19, gap_s))};
    const LoadSummary s = summarize(result, {});
    EXPECT_GE(s.peak_output_tokens_per_s, s.output_throughput * (1 - 1e-9)) << duration_s;
    EXPECT_LE(s.peak_output_tokens_per_s, 2 * s.output_throughput) << duration_s;
  }
}

TEST(LoadSummary, PeakIsOfTheBusiestSecond) {
  LoadResult result;
  result.duration_s = 4.0;
  result.requests = {record(0.5, 0.5, 1, {}), record(2.1, 2.5, 5, {0.1, 0.1, 0.1, 0.1})};
  EXPECT_DOUBLE_EQ(summarize(result, {}).peak_output_tokens_per_s, 5.0);
}

TEST(LoadSummary, PercentilesInterpolate) {
  const Distribution d = distribution({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(d.median, 2.5);
  EXPECT_DOUBLE_EQ(d.mean, 2.5);
  EXPECT_NEAR(d.p90, 3.7, 1e-9);
  EXPECT_NEAR(d.std, 1.1180339887, 1e-9);
  EXPECT_EQ(distribution({}).p99, 0.0);
}

}  // namespace
}  // namespace quire::bench
