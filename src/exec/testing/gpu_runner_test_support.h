// These helpers run golden models on a GpuRunner, on the emulated device or on a GPU.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "exec/gpu/gpu_runner.h"
#include "exec/testing/golden_support.h"
#include "exec/testing/test_driver.h"
#include "kernels/cuda/test/test_device.h"

namespace quire::gpu_test {

// Skips by name where there is no GPU.
class GpuRunnerTest : public ::testing::Test {
 protected:
  void SetUp() override;
};

// A forward pass in bf16 differs by so much of a row's norm at most, as model_goldens_test.cc argues.
inline constexpr double kBf16Budget = 0.06;

struct RunnerSetup {
  GpuRunnerOptions gpu = {};
  std::string kv_cache_dtype = "auto";
  int64_t max_model_len = 0;
  EmulatedGpu emulated = {};
  bool fp8_activations = false;  // the checkpoint asks for them, chosen per row as the step runs
  int32_t num_blocks = test::kGoldenBlocks;
  int32_t num_host_blocks = 0;
  int32_t max_adapters = 0;
  int64_t max_lora_rank = 16;
  test::LogitsByPosition* seen = nullptr;  // gets the logits of every row; the host samples then
};

// Of tests/goldens, ready to run.
Result<std::unique_ptr<GpuRunner>> load_runner(const std::string& model, const RunnerSetup& setup);

// What transformers computed, within `budget` of a row's norm; greedy tokens by the near-tie rule.
// Returns how the weights were packed.
GpuPackingCounts expect_golden(const std::string& model, RunnerSetup setup, double budget);

test::DriverRequest sampled_request(uint64_t id, int32_t prompt_tokens);

// Expects the same tokens and logprobs, bit for bit.
void expect_same(const test::DriverOutput& a, const test::DriverOutput& b);

}  // namespace quire::gpu_test
