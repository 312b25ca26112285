// These tests compare the planner with trying every number of replicas.
#include "sim/planner.h"

#include <gtest/gtest.h>

#include "sim/workload/synthetic.h"

namespace quire::sim {
namespace {

constexpr std::string_view kModel = R"({
  "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
  "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
  "vocab_size": 128256, "max_position_embeddings": 131072, "torch_dtype": "bfloat16"})";

PlanOptions options_for(const char* hardware) {
  PlanOptions options;
  options.base.model = parse_model_shape(kModel).value();
  options.base.engine.scheduler.max_num_queued_reqs = 1 << 20;
  options.base.engine.scheduler.max_num_queued_tokens = int64_t{1} << 40;
  options.hardware = {find_hardware(hardware).value()};
  options.tensor_parallel = {1, 2};
  options.max_num_batched_tokens = {4096};
  options.limits = {.ttft_ms = 500, .tpot_ms = 30};
  options.max_devices = 16;
  return options;
}

Workload load(double rate) {
  SyntheticOptions options;
  options.num_requests = 400;
  options.rate = RateProfile::constant(rate);
  options.input = LengthDistribution::parse("lognormal:1000:800", "input").value();
  options.output = LengthDistribution::constant(100);
  return make_synthetic(options).value();
}

TEST(Planner, FindsTheLeastNumberThatTryingAllFinds) {
  const Workload workload = load(40);
  PlanOptions options = options_for("h100-sxm");
  options.tensor_parallel = {1};
  const auto plan = plan_deployment(workload, options);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  ASSERT_EQ(plan->candidates.size(), 1u);
  const PlanCandidate& found = plan->candidates[0];
  ASSERT_GT(found.num_replicas, 1);
  PoolOptions pool = options.base;
  pool.hardware = options.hardware[0];
  pool.engine.scheduler.max_num_batched_tokens = 4096;
  pool.engine.scheduler.max_num_seqs = 256;
  for (int32_t n = 1; n <= found.num_replicas; ++n) {
    pool.num_replicas = n;
    const FleetSpec spec{.pools = {make_pool(pool).value()}};
    const RunResult result = run(workload, spec).value();
    const Summary s = summarize(spec, result, options.limits);
    const bool good = s.good_share >= options.good_share && s.verdict != Verdict::kOverloaded;
    EXPECT_EQ(good, n == found.num_replicas) << n << " replicas";
  }
  EXPECT_NE(found.why_not_fewer.find("good"), std::string::npos);
}

TEST(Planner, FewestDevicesComeFirstAndTheFrontierIsMarked) {
  std::vector<PlanProgress> told;
  const auto plan = plan_deployment(load(30), options_for("h100-sxm"),
                                    [&](const PlanProgress& p) { told.push_back(p); });
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  ASSERT_EQ(plan->candidates.size(), 2u);
  ASSERT_EQ(static_cast<int64_t>(told.size()), plan->num_simulations);
  EXPECT_EQ(told.front().num_done, 0);
  EXPECT_EQ(told.back().num_done, 1) << "the last of two is under way";
  for (const PlanProgress& p : told) EXPECT_EQ(p.num_candidates, 2);
  EXPECT_LE(plan->candidates[0].num_devices, plan->candidates[1].num_devices);
  EXPECT_TRUE(plan->candidates[0].on_frontier);
  const std::string text = plan_text(*plan, options_for("h100-sxm"));
  EXPECT_NE(text.find("why not fewer"), std::string::npos);
  EXPECT_EQ(plan_html(*plan, options_for("h100-sxm")).find("nan"), std::string::npos);
}

// Accepted drafts serve the same load with fewer devices, and the table shows it.
TEST(Planner, SaysWhatDraftsWouldBring) {
  PlanOptions options = options_for("h100-sxm");
  options.tensor_parallel = {1};
  options.num_speculative_tokens = {0, 4};
  options.base.draft_acceptance = 0.9;
  options.limits = {.ttft_ms = 2000, .tpot_ms = 6};
  const auto plan = plan_deployment(load(40), options);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  ASSERT_EQ(plan->candidates.size(), 2u);
  const PlanCandidate& best = plan->candidates[0];
  ASSERT_TRUE(plan->meets_slos()) << closest_text(*plan);
  EXPECT_EQ(best.num_speculative_tokens, 4);
  const PlanCandidate& other = plan->candidates[1];
  EXPECT_TRUE(other.num_replicas == 0 || other.num_replicas > best.num_replicas ||
              other.summary.tpot_ms.p99 > best.summary.tpot_ms.p99);
  EXPECT_NE(plan_text(*plan, options).find("up to 4 drafts a step"), std::string::npos);
  options.base.draft_acceptance = 1.5;
  const auto wrong = plan_deployment(load(1), options);
  ASSERT_TRUE(wrong.ok());
  EXPECT_NE(wrong->candidates.back().obstacle.find("a share in [0, 1]"), std::string::npos);
}

TEST(Planner, SaysWhyNothingIsEnough) {
  PlanOptions options = options_for("l40s");
  options.max_devices = 1;
  options.tensor_parallel = {1};
  const auto plan = plan_deployment(load(100), options);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->candidates[0].num_replicas, 0);
  EXPECT_NE(plan->candidates[0].obstacle.find("1 replica:"), std::string::npos);
  EXPECT_NE(plan_text(*plan, options).find("none with at most 1 devices"), std::string::npos);
}

TEST(Planner, RefusesWhatItCannotPlan) {
  PlanOptions options = options_for("h100-sxm");
  options.limits = {};
  EXPECT_FALSE(plan_deployment(load(1), options).ok());
  options = options_for("h100-sxm");
  options.objective = PlanObjective::kDollars;
  options.hardware[0].price_per_hour = 0;
  EXPECT_FALSE(plan_deployment(load(1), options).ok()) << "no price";
}

// Each figure has a limit of its own, and both formats of the cache are tried.
TEST(Planner, KeepsFiguresApartAndTriesFormatsOfTheCache) {
  const Workload workload = load(60);
  PlanOptions options = options_for("h100-sxm");
  options.tensor_parallel = {1};
  options.limits = {};
  options.limits.figures = {{Metric::kTtft, Statistic::kP90, 300},
                            {Metric::kTpot, Statistic::kP50, 12}};
  options.kv_formats = {*parse_number_format("bfloat16"), *parse_number_format("fp8")};
  const DeploymentPlan plan = plan_deployment(workload, options).value();
  ASSERT_EQ(plan.candidates.size(), 2u);
  ASSERT_TRUE(plan.meets_slos());
  for (const PlanCandidate& c : plan.candidates) {
    EXPECT_LE(c.summary.ttft_ms.p90, 300);
    EXPECT_LE(c.summary.tpot_ms.p50, 12);
    EXPECT_GT(c.num_replicas, 1);
    EXPECT_NE(c.why_not_fewer.find(" of "), std::string::npos) << c.why_not_fewer;
  }
  EXPECT_NE(plan.candidates[0].kv_format, plan.candidates[1].kv_format);
  // No number of replicas meets this limit, because one request alone takes longer.
  options.limits.figures.push_back({Metric::kTpot, Statistic::kMean, 1});
  EXPECT_FALSE(plan_deployment(workload, options).value().meets_slos());
  const std::string html = plan_html(plan, options);
  EXPECT_NE(html.find("the plan"), std::string::npos);
  EXPECT_NE(html.find("p90 TTFT within 300 ms, p50 TPOT within 12 ms"), std::string::npos);
}

}  // namespace
}  // namespace quire::sim
