// Reports of the same run have the same bytes, figures follow their definitions, and pages need no
// other file.
#include "sim/report/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "sim/report/chrome_trace.h"
#include "sim/testing/sim_test_support.h"
#include "sim/workload/trace_formats.h"

namespace quire::sim {
namespace {

struct Reported {
  Summary summary;
  std::string text, json, csv, html;
};

Reported report_of(const Workload& workload, const FleetSpec& spec, const SloLimits& limits) {
  const RunResult result = run(workload, spec).value();
  const Description description{{"model", "tiny <model> & \"more\""}};
  Reported r{.summary = summarize(spec, result, limits)};
  r.text = report_text(r.summary, description);
  r.json = report_json(r.summary, description);
  r.csv = report_csv(workload, result);
  r.html = report_html(r.summary, result, description);
  return r;
}

TEST(Report, SameSeedSameBytesWhateverTheThreads) {
  const Workload workload = test::random_workload(2, 400, 1e6);
  FleetSpec spec = test::small_fleet(3, Routing::kRandom);
  const SloLimits limits{.ttft_ms = 20, .tpot_ms = 3, .e2e_ms = 100};
  const Reported a = report_of(workload, spec, limits);
  spec.num_threads = 2;
  spec.pools[0].replica.fast_forward = false;
  const Reported b = report_of(workload, spec, limits);
  EXPECT_EQ(a.text, b.text);
  EXPECT_EQ(a.json, b.json);
  EXPECT_EQ(a.csv, b.csv);
  EXPECT_EQ(a.html, b.html);
}

TEST(Report, FiguresAreThoseOfTheRecords) {
  RunResult result;
  result.records.resize(3);
  for (size_t i = 0; i < 3; ++i) {
    RequestRecord& r = result.records[i];
    r.outcome = Outcome::kCompleted;
    r.input_tokens = 10;
    r.output_tokens = i == 2 ? 1 : 11;
    r.arrival_ns = 0;
    r.first_token_ns = static_cast<int64_t>(i + 1) * 100'000'000;
    r.last_token_ns = r.first_token_ns + (i == 2 ? 0 : 50'000'000 * static_cast<int64_t>(i + 1));
    r.ttft_parts[static_cast<size_t>(Cause::kQueue)] = r.first_token_ns;
    r.decode_parts[static_cast<size_t>(Cause::kCompute)] = r.last_token_ns - r.first_token_ns;
  }
  result.end_ns = 2'000'000'000;
  const FleetSpec spec = test::small_fleet();
  const Summary s = summarize(spec, result, {.ttft_ms = 250, .tpot_ms = 7});
  EXPECT_DOUBLE_EQ(s.ttft_ms.mean, 200);
  EXPECT_DOUBLE_EQ(s.ttft_ms.p50, 200);
  EXPECT_DOUBLE_EQ(s.ttft_ms.p90, 280);
  EXPECT_DOUBLE_EQ(s.tpot_ms.mean, 7.5) << "a single token has no TPOT";
  EXPECT_DOUBLE_EQ(s.request_throughput, 1.5);
  EXPECT_DOUBLE_EQ(s.output_throughput, 11.5);
  // The second misses TPOT (10 ms), the third TTFT; a request of one token has a TPOT of 0.
  EXPECT_DOUBLE_EQ(s.goodput, 0.5);
  EXPECT_EQ(s.ttft_misses.num_missed, 1);
  EXPECT_EQ(s.ttft_misses.by_cause[static_cast<size_t>(Cause::kQueue)], 1);
  EXPECT_EQ(s.tpot_misses.by_cause[static_cast<size_t>(Cause::kCompute)], 1);
}

TEST(Report, VerdictFollowsTheLoad) {
  const FleetSpec spec = test::small_fleet();
  const auto verdict = [&spec](double gap_ns, int32_t n) {
    return report_of(test::random_workload(4, n, gap_ns), spec, {}).summary.verdict;
  };
  EXPECT_EQ(verdict(4e7, 300), Verdict::kStable);
  EXPECT_EQ(verdict(2e6, 600), Verdict::kOverloaded);
  FleetSpec full = spec;
  full.pools[0].replica.engine.scheduler.max_num_queued_reqs = 4;
  const Reported refused = report_of(test::random_workload(4, 300, 1e6), full, {});
  EXPECT_EQ(refused.summary.verdict, Verdict::kOverloaded);
  EXPECT_GT(refused.summary.num_refused, 0);
}

TEST(Report, CsvHasOneRowPerRequestAndAsManyFieldsAsNames) {
  const Reported r = report_of(test::random_workload(2, 50, 1e6), test::small_fleet(), {});
  std::istringstream lines(r.csv);
  std::string line;
  std::getline(lines, line);
  const auto num_commas = std::count(line.begin(), line.end(), ',');
  int num_rows = 0;
  while (std::getline(lines, line)) {
    EXPECT_EQ(std::count(line.begin(), line.end(), ','), num_commas);
    ++num_rows;
  }
  EXPECT_EQ(num_rows, 50);
}

TEST(Report, JsonParsesAndPagesNeedNothingElse) {
  const Reported r =
      report_of(test::random_workload(2, 50, 1e6), test::small_fleet(), {.ttft_ms = 5});
  const auto object = parse_object(r.json, "json");
  ASSERT_TRUE(object.ok()) << object.status().message();
  EXPECT_EQ(object->at("completed").as_int64(), 50);
  EXPECT_NE(r.html.find("tiny &lt;model&gt; &amp; &quot;more&quot;"), std::string::npos);
  EXPECT_EQ(r.html.find("<script"), std::string::npos);
  EXPECT_EQ(r.html.find("http"), std::string::npos);
  EXPECT_EQ(r.html.find("nan"), std::string::npos);
}

TEST(Report, ChromeTraceIsJsonAndBounded) {
  const Workload workload = test::random_workload(2, 30, 1e6);
  const FleetSpec spec = test::small_fleet();
  ChromeTrace trace(20);
  const auto result =
      run(workload, spec, {.on_step = [&trace](const StepView& step) { trace.add(step); }});
  ASSERT_TRUE(result.ok());
  trace.add_requests(*result);
  EXPECT_GT(trace.num_left_out(), 0);
  const auto object = parse_object(trace.text(), "trace");
  ASSERT_TRUE(object.ok()) << object.status().message();
  EXPECT_GT(object->at("traceEvents").as_array().size(), 40u + 30u * 4);
}

}  // namespace
}  // namespace quire::sim
