// Quantized checkpoints and an e4m3 KV cache on a GpuRunner.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "exec/testing/gpu_runner_test_support.h"
#include "tests/support/test_data.h"

namespace quire {
namespace {

using gpu_test::GpuRunnerTest;
using gpu_test::load_runner;
using test::PlanDriver;

// The budget for the CPU's default compute types (quant_goldens_test.cc).
constexpr double kServedBudget = 6e-2;
// Activations have three bits of mantissa in every layer.
constexpr double kFp8Budget = 0.15;

std::vector<std::string> quant_goldens() {
  std::vector<std::string> names;
  const auto dir = test::source_dir() / "tests" / "goldens" / "quant_models";
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    // Rows of int8 are left out because each tests a family, not all of which GPUs run; and blocks
    // of 128 x 128 because Hopper multiplies them with FP8 activations, for which there is another
    // budget.
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("int8_rows_") && !name.starts_with("fp8_block_128_"))
      names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

class GpuQuantGolden : public GpuRunnerTest, public ::testing::WithParamInterface<std::string> {};

TEST_P(GpuQuantGolden, LogitsAsServed) {
  const GpuPackingCounts counts = gpu_test::expect_golden(GetParam(), {}, kServedBudget);
  EXPECT_GT(counts.quantized + counts.expanded + counts.quantized_of_experts + counts.int8_products,
            0);
  EXPECT_EQ(counts.int8_products > 0,
            GetParam().starts_with("int8_") && !GetParam().starts_with("int8_weights_"));
  EXPECT_EQ(counts.fp8_products, 0);
  EXPECT_EQ(counts.quantized_of_experts > 0,
            GetParam().ends_with("_moe") || GetParam() == "mxfp4_gpt_oss");
  EXPECT_EQ(counts.expanded_of_experts, 0);
  const bool has_groups_of_16 =
      GetParam().starts_with("gguf_k") || GetParam().starts_with("gguf_grid") ||
      GetParam().starts_with("gguf_q4_k_m") || GetParam().starts_with("nvfp4");
  if (!has_groups_of_16) {
    EXPECT_EQ(counts.expanded, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuQuantGolden, ::testing::ValuesIn(quant_goldens()),
                         [](const auto& info) { return info.param; });

// Checkpoints made for FP8 activations, with a scale per tensor, per output or per block.
TEST_F(GpuRunnerTest, MultipliesFp8OnHopper) {
  for (const char* model : {"fp8_llama", "fp8_tensor_gemma2", "fp8_block_128_wide_llama"}) {
    SCOPED_TRACE(model);
    const bool says_so = std::string_view(model).starts_with("fp8_block");
    const GpuPackingCounts counts = gpu_test::expect_golden(
        model, {.emulated = {.compute_capability = 90}, .fp8_activations = !says_so}, kFp8Budget);
    EXPECT_GT(counts.fp8_products, 0);
    EXPECT_EQ(counts.quantized, 0);
  }
  // Weights with scales of other blocks are multiplied by value, as on any GPU.
  const GpuPackingCounts counts = gpu_test::expect_golden(
      "fp8_block_qwen3", {.emulated = {.compute_capability = 90}}, kServedBudget);
  EXPECT_EQ(counts.fp8_products, 0);
}

// Law L4 for every format in which weights or the cache are stored.
TEST_F(GpuRunnerTest, BitsOfQuantizedModelsDoNotDependOnTheBatch) {
  struct Case {
    const char* model;
    gpu_test::RunnerSetup setup;
  };
  for (const Case& c :
       {Case{"gptq_order_llama", {}}, Case{"gguf_k_mix_llama", {}},
        Case{"fp8_llama", {.emulated = {.compute_capability = 90}, .fp8_activations = true}},
        Case{"fp8_block_128_wide_llama", {.emulated = {.compute_capability = 90}}},
        Case{"awq_qwen2", {.kv_cache_dtype = "fp8"}}, Case{"packed_qwen3_moe", {}},
        Case{"mxfp4_gpt_oss", {.emulated = {.compute_capability = 90}}}, Case{"int8_llama", {}}}) {
    SCOPED_TRACE(c.model);
    auto runner = load_runner(c.model, c.setup);
    ASSERT_TRUE(runner.ok()) << runner.status().message();
    PlanDriver driver(**runner, test::kGoldenBlocks);
    const auto watched = gpu_test::sampled_request(1, 29);
    auto alone = driver.run({watched}, {});
    gpu_test::RunnerSetup without_graphs = c.setup;
    without_graphs.gpu.graphs = GraphMode::kNone;
    auto plain = load_runner(c.model, without_graphs);
    ASSERT_TRUE(plain.ok()) << plain.status().message();
    PlanDriver plain_driver(**plain, test::kGoldenBlocks);
    gpu_test::expect_same(plain_driver.run({watched}, {})[1], alone[1]);
    auto chunked = driver.run({watched}, {.chunk = 11});
    gpu_test::expect_same(chunked[1], alone[1]);
    auto crowd = driver.run({gpu_test::sampled_request(2, 20), watched}, {.chunk = 16});
    gpu_test::expect_same(crowd[1], alone[1]);
    auto preempted = driver.run({watched}, {.preempt_after_output = 3});
    gpu_test::expect_same(preempted[1], alone[1]);
    driver.run({gpu_test::sampled_request(9, 20)}, {});
    const auto after_hit = driver.run_after_hit(watched, 1, 1, {});
    gpu_test::expect_same(after_hit, alone[1]);
  }
}

// e4m3 codes cost about as much accuracy as on the CPU, and take half of the memory.
TEST_F(GpuRunnerTest, KeepsTheCacheInFp8) {
  constexpr double kFp8CacheBudget = 0.1;
  gpu_test::expect_golden("awq_llama", {.kv_cache_dtype = "fp8"}, kFp8CacheBudget);
  auto plain = load_runner("awq_llama", {});
  auto fp8 = load_runner("awq_llama", {.kv_cache_dtype = "fp8_e4m3"});
  ASSERT_TRUE(plain.ok() && fp8.ok());
  EXPECT_EQ((*fp8)->model().plan().memory.block_bytes * 2,
            (*plain)->model().plan().memory.block_bytes);
  EXPECT_EQ((*fp8)->kv_spec().block_bytes * 2, (*plain)->kv_spec().block_bytes);
}

TEST_F(GpuRunnerTest, RefusesCachesThatItsKernelsDoNotTake) {
  const auto int8 = load_runner("llama", {.kv_cache_dtype = "int8"});
  EXPECT_EQ(int8.status().code(), StatusCode::kInvalidArgument);
  // Tensor cores do not support codes of heads with 8 dims, which the plain kernel handles.
  EXPECT_TRUE(load_runner("llama", {.kv_cache_dtype = "fp8"}).ok());
}

}  // namespace
}  // namespace quire
