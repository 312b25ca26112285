#include "sim/workload/client_jitter.h"

#include <gtest/gtest.h>

#include "sim/fleet/fleet.h"
#include "sim/report/summary.h"
#include "sim/testing/sim_test_support.h"
#include "sim/workload/trace.h"

namespace quire::sim {
namespace {

Workload equal_requests(int32_t num_requests, int32_t concurrency) {
  Workload workload;
  workload.name = "equal";
  workload.closed_loop = ClosedLoop{.concurrency = concurrency};
  for (int32_t i = 0; i < num_requests; ++i) {
    workload.requests.push_back({.input_tokens = 64,
                                 .output_tokens = 40,
                                 .content = stream_id(1, static_cast<uint64_t>(i))});
  }
  return workload;
}

double mean_ttft_ms(const Workload& workload) {
  FleetSpec spec = test::small_fleet();
  spec.pools[0].replica.engine.scheduler.max_num_batched_tokens = 512;
  const RunResult result = run(workload, spec).value();
  double sum = 0;
  for (const RequestRecord& record : result.records) {
    sum += static_cast<double>(record.ttft_ns()) * 1e-6;
  }
  return sum / static_cast<double>(result.records.size());
}

// Without jitter, eight requests that end together are replaced together, and each waits for all
// eight prompts.
TEST(ClientJitter, BreaksTheLockstepOfAClosedLoop) {
  Workload workload = equal_requests(400, 8);
  const double in_lockstep_ms = mean_ttft_ms(workload);
  add_client_jitter({.delay_ns = 40'000'000, .seed = 1}, workload);
  ASSERT_TRUE(workload.validate().ok());
  EXPECT_LT(mean_ttft_ms(workload), 0.75 * in_lockstep_ms);
}

TEST(ClientJitter, LengthsStayWithinTheirShareAndKeepTheirMean) {
  Workload workload = test::random_workload(3, 4000, 1e6);
  for (SimRequest& r : workload.requests) r.input_tokens = 1000;
  add_client_jitter({.length_share = 0.1, .seed = 2}, workload);
  ASSERT_TRUE(workload.validate().ok());
  double sum = 0;
  int32_t least = 1000, most = 1000;
  for (const SimRequest& r : workload.requests) {
    sum += r.input_tokens;
    least = std::min(least, r.input_tokens);
    most = std::max(most, r.input_tokens);
  }
  EXPECT_NEAR(sum / 4000, 1000, 5);
  EXPECT_GE(least, 900);
  EXPECT_LT(least, 905);
  EXPECT_LE(most, 1100);
  EXPECT_GT(most, 1095);
}

TEST(ClientJitter, ArrivalsStayInOrderAndTurnsBehindTheirFirst) {
  Workload workload = test::random_workload(5, 500, 1e6);
  for (size_t i = 10; i < workload.requests.size(); i += 10) {
    workload.requests[i].previous = static_cast<int32_t>(i) - 1;
  }
  const Workload before = workload;
  add_client_jitter({.length_share = 0.2, .delay_ns = 50'000'000, .seed = 2}, workload);
  ASSERT_TRUE(workload.validate().ok());
  EXPECT_NE(workload.requests, before.requests);
  Workload again = before;
  add_client_jitter({.length_share = 0.2, .delay_ns = 50'000'000, .seed = 2}, again);
  EXPECT_EQ(workload.requests, again.requests);
}

TEST(ClientJitter, NoneChangesNothing) {
  Workload workload = test::random_workload(5, 100, 1e6);
  const Workload before = workload;
  add_client_jitter({}, workload);
  EXPECT_EQ(workload.requests, before.requests);
}

TEST(ClientJitter, TracesKeepIt) {
  Workload workload = equal_requests(20, 4);
  add_client_jitter({.length_share = 0.2, .delay_ns = 1'000'000, .seed = 2}, workload);
  const Workload read = parse_trace(write_trace(workload), "saved", {}).value();
  EXPECT_EQ(read.requests, workload.requests);
}

}  // namespace
}  // namespace quire::sim
