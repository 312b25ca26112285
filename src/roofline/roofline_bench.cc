// Measures how long a prediction takes; the simulator makes one per step.
#include <benchmark/benchmark.h>

#include "roofline/model/cost_model.h"
#include "roofline/testing/test_models.h"

namespace quire {
namespace {

StepShape mixed_step() {
  StepShape step;
  for (int32_t i = 0; i < 128; ++i) step.add(500 + 13 * i, 1, true, {});
  step.add(2048, 512, false, {});
  return step;
}

void predict_us(benchmark::State& state) {
  const CostModel cost =
      CostModel::create(test::model_of(test::kLlama31_8B), find_hardware("h100-sxm").value())
          .value();
  const StepShape step = mixed_step();
  for (auto _ : state) benchmark::DoNotOptimize(cost.predict_us(step));
}
BENCHMARK(predict_us);

void predict_terms(benchmark::State& state) {
  const CostModel cost =
      CostModel::create(test::model_of(test::kLlama31_8B), find_hardware("h100-sxm").value())
          .value();
  const StepShape step = mixed_step();
  for (auto _ : state) benchmark::DoNotOptimize(cost.predict(step));
}
BENCHMARK(predict_terms);

void assign_step(benchmark::State& state) {
  StepPlan plan;
  for (uint64_t i = 0; i < 128; ++i) plan.scheduled.push_back({RequestId(i), 700, 1});
  StepShape step;
  for (auto _ : state) {
    assign(step, plan, {});
    benchmark::DoNotOptimize(step);
  }
}
BENCHMARK(assign_step);

void create_model(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        CostModel::create(test::model_of(test::kLlama31_8B), find_hardware("h100-sxm").value()));
  }
}
BENCHMARK(create_model)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace quire

BENCHMARK_MAIN();
