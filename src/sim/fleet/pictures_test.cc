// These tests simulate pictures: the scheduler places them, and steps that encode them take longer.
#include "sim/workload/pictures.h"

#include <gtest/gtest.h>

#include <set>

#include "roofline/testing/test_models.h"
#include "sim/fleet/deployment.h"
#include "sim/report/summary.h"
#include "sim/workload/trace.h"

namespace quire::sim {
namespace {

Workload workload_of(int32_t count, double share, std::vector<int32_t> items) {
  Workload workload{.name = "test"};
  for (int32_t i = 0; i < count; ++i) {
    workload.requests.push_back({.arrival_ns = i * int64_t{20'000'000},
                                 .input_tokens = 200 + i % 50,
                                 .output_tokens = 40,
                                 .content = static_cast<uint64_t>(i) + 1});
  }
  add_pictures({.per_request = 2, .share = share, .items = std::move(items), .seed = 4}, workload);
  return workload;
}

PoolOptions pool_of(bool reads_pictures) {
  PoolOptions options;
  options.model = test::model_of(test::kLlama31_8B);
  options.hardware = find_hardware("h100-sxm").value();
  if (!reads_pictures) return options;
  options.model.tower = {
      .width = 1280,
      .encoder = {{.num_layers = 32,
                   .attention = {.num_heads = 16, .num_kv_heads = 16, .head_dim = 80},
                   .ffn = {.intermediate_size = 3420, .num_matrices = 3}}},
      .rows_per_embedding = 4,
      .patch_elements = 1280 * 1176,
      .projector_elements = 5120 * (5120 + 4096),
      .max_embeddings = 2048};
  return options;
}

FleetSpec fleet_of(const PoolOptions& options) {
  FleetSpec spec;
  spec.pools.push_back(make_pool(options).value());
  return spec;
}

Summary simulate(const Workload& workload) {
  const FleetSpec spec = fleet_of(pool_of(true));
  return summarize(spec, run(workload, spec).value(), {});
}

TEST(Pictures, StandBehindThePrefixAndDiffer) {
  Workload workload = workload_of(3, 1, {64, 32});
  EXPECT_EQ(workload.requests[0].input_tokens, 200 + 2 * 96);
  workload.requests[0].prefix = 7;
  workload.requests[0].prefix_tokens = 16;
  std::set<std::string> keys;
  for (const SimRequest& request : workload.requests) {
    const std::vector<MediaSpan> spans = workload.pictures_of(request);
    ASSERT_EQ(spans.size(), 4u);
    EXPECT_EQ(spans[0].begin, request.prefix_tokens);
    EXPECT_EQ(spans[3].end, request.prefix_tokens + 192);
    for (const MediaSpan& span : spans) {
      EXPECT_EQ(span.num_tokens(), span.item->num_embeddings);
      keys.insert(span.item->key);
    }
  }
  EXPECT_EQ(keys.size(), 12u);
  EXPECT_TRUE(workload.validate().ok());
  workload.requests[1].input_tokens = 192;
  EXPECT_FALSE(workload.validate().ok()) << "nothing is asked about them";
}

TEST(Pictures, SomeRequestsBringThemAndTurnsKeepThem) {
  Workload workload = workload_of(4'000, 0.25, {64});
  int32_t with = 0;
  for (const SimRequest& request : workload.requests) with += request.num_pictures > 0;
  EXPECT_NEAR(with, 1'000, 100);
  for (SimRequest& request : workload.requests) request = {.content = request.content};
  for (size_t i = 1; i < workload.requests.size(); i += 2)
    workload.requests[i].previous = static_cast<int32_t>(i) - 1;
  add_pictures({.per_request = 1, .share = 0.5, .items = {64}, .seed = 1}, workload);
  for (size_t i = 1; i < workload.requests.size(); i += 2)
    EXPECT_EQ(workload.requests[i].num_pictures, workload.requests[i - 1].num_pictures);
}

TEST(Pictures, TakeTimeInTheStepsThatEncodeThem) {
  const Workload text = workload_of(300, 0, {1024});
  const Workload mixed = workload_of(300, 0.5, {1024});
  Workload tokens = mixed;  // the same lengths, without an encoder's work
  for (SimRequest& request : tokens.requests) request.num_pictures = 0;
  tokens.picture_items.clear();
  const double of_text = simulate(text).ttft_ms.mean;
  const double of_tokens = simulate(tokens).ttft_ms.mean;
  const double of_pictures = simulate(mixed).ttft_ms.mean;
  EXPECT_GT(of_tokens, of_text);
  EXPECT_GT(of_pictures, 1.1 * of_tokens);
  EXPECT_EQ(simulate(mixed).ttft_ms.mean, of_pictures) << "a run can be repeated";
}

TEST(Pictures, NeedAModelThatReadsThem) {
  const Workload workload = workload_of(4, 1, {64});
  const auto result = run(workload, fleet_of(pool_of(false)));
  EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(result.status().message().find("expected a model that reads pictures"),
            std::string::npos);
}

TEST(Pictures, TracesKeepThem) {
  const Workload workload = workload_of(20, 0.5, {64, 32});
  const std::string text = write_trace(workload);
  const auto again = parse_trace(text, "trace", {});
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->requests, workload.requests);
  EXPECT_EQ(again->picture_items, workload.picture_items);
  EXPECT_FALSE(
      parse_trace(R"({"format":"quire-trace","version":1,"picture_items":[0]})", "t", {}).ok());
}

}  // namespace
}  // namespace quire::sim
