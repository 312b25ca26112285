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

// A test that is skipped, with a message, where there is no GPU.
class GpuRunnerTest : public ::testing::Test {
 protected:
  void SetUp() override;
};

// The greatest error of a bf16 forward pass, relative to the row's norm (model_goldens_test.cc says
// why).
inline constexpr double kBf16Budget = 0.06;

struct RunnerSetup {
  GpuRunnerOptions gpu = {};
  std::string kv_cache_dtype = "auto";
  int64_t max_model_len = 0;
  EmulatedGpu emulated = {};
  bool fp8_activations = false;  // as if the checkpoint asked for them, scaled per row at run time
  int32_t num_blocks = test::kGoldenBlocks;
  int32_t num_host_blocks = 0;
  int32_t max_adapters = 0;
  int64_t max_lora_rank = 16;
  // Receives the logits of every row, which makes the host sample.
  test::LogitsByPosition* seen = nullptr;
};

// Loads a model of tests/goldens.
Result<std::unique_ptr<GpuRunner>> load_runner(const std::string& model, const RunnerSetup& setup);

// Expects the logits of transformers, within `budget` of a row's norm, and its greedy tokens by the
// near-tie rule. Returns how the weights were packed.
GpuPackingCounts expect_golden(const std::string& model, RunnerSetup setup, double budget);

test::DriverRequest sampled_request(uint64_t id, int32_t prompt_tokens);

// Expects the same tokens and logprobs, bit for bit.
void expect_same(const test::DriverOutput& a, const test::DriverOutput& b);

}  // namespace quire::gpu_test
