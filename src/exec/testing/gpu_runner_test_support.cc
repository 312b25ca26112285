#include "exec/testing/gpu_runner_test_support.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "tests/support/temp_folder.h"

namespace quire::gpu_test {
namespace {

// Copies the checkpoint to `folder` and makes the copy ask for fp8 activations.
std::string with_fp8_activations(const std::string& model_dir, const test::TempFolder& folder) {
  namespace fs = std::filesystem;
  const fs::path copy = folder / "model";
  fs::copy(model_dir, copy, fs::copy_options::recursive);
  std::ifstream file(copy / "config.json");
  std::string config(std::istreambuf_iterator<char>(file), {});
  const std::string none = R"("input_activations": null)";
  const size_t at = config.find(none);
  EXPECT_NE(at, std::string::npos);
  if (at == std::string::npos) return model_dir;
  config.replace(at, none.size(),
                 R"("input_activations": {"num_bits": 8, "type": "float", "symmetric": true,)"
                 R"( "strategy": "token", "dynamic": true})");
  std::ofstream(copy / "config.json") << config;
  return copy.string();
}

}  // namespace

void GpuRunnerTest::SetUp() {
  const auto device = open_test_device();
  if (!device.ok()) GTEST_SKIP() << "SKIPPED: " << device.status().message();
}

Result<std::unique_ptr<GpuRunner>> load_runner(const std::string& model, const RunnerSetup& setup) {
  std::string path = test::golden_model(test::golden_dir(model));
  const test::TempFolder folder;
  if (setup.fp8_activations) path = with_fp8_activations(path, folder);
  QUIRE_ASSIGN_OR_RETURN(ModelFiles files, ModelFiles::open(path));
  ModelRunnerOptions options;
  options.files = std::make_shared<const ModelFiles>(std::move(files));
  options.kv_cache_dtype = setup.kv_cache_dtype;
  options.max_model_len = setup.max_model_len;
  options.kv_cache_memory_bytes = int64_t{8} << 20;
  options.threads = 1;
  options.state_block_size = 16;  // so that prefix hits of few blocks end at snapshots
  options.pin_threads = false;
  options.max_num_batched_tokens = 64;
  options.max_num_seqs = 6;
  options.max_adapters = setup.max_adapters;
  options.max_lora_rank = setup.max_lora_rank;
  if (setup.seen != nullptr) {
    options.on_logits = [seen = setup.seen](RequestId, int32_t position,
                                            std::span<const float> logits) {
      (*seen)[position].assign(logits.begin(), logits.end());
    };
  }
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, open_test_device(setup.emulated));
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<GpuRunner> runner,
                         GpuRunner::create(std::move(options), setup.gpu, std::move(device)));
  QUIRE_RETURN_IF_ERROR(runner->initialize({.num_blocks = setup.num_blocks,
                                            .num_host_blocks = setup.num_host_blocks,
                                            .num_state_blocks = setup.num_blocks}));
  QUIRE_RETURN_IF_ERROR(runner->warm_up());
  return runner;
}

GpuPackingCounts expect_golden(const std::string& model, RunnerSetup setup, double budget) {
  const test::Golden golden = test::read_golden(test::golden_dir(model));
  test::LogitsByPosition seen;
  setup.gpu.graphs = GraphMode::kNone;
  setup.max_model_len = golden.max_model_len;
  setup.seen = &seen;
  auto runner = load_runner(model, setup);
  EXPECT_TRUE(runner.ok()) << runner.status().message();
  if (!runner.ok()) return {};
  seen.clear();
  std::vector<TokenId> all = golden.prompt;
  all.insert(all.end(), golden.tokens.begin(), golden.tokens.end());
  test::PlanDriver driver(**runner, setup.num_blocks);
  auto outputs = driver.run({test::greedy_request(all, 1)}, {.chunk = 40, .step_tokens = 64});
  EXPECT_TRUE(outputs[1].status.ok()) << outputs[1].status.message();
  const double error = test::worst_error(golden, seen);
  EXPECT_LE(error, budget);
  for (size_t i = 0; i < golden.tokens.size(); ++i) {  // near-tie rule
    const std::vector<float>& row = seen[static_cast<int32_t>(golden.prompt.size() + i)];
    const float best = *std::max_element(row.begin(), row.end());
    double norm = 0.0;
    for (const float x : row) norm += double{x} * x;
    EXPECT_LE(best - row[static_cast<size_t>(golden.tokens[i])], budget * std::sqrt(norm))
        << "step " << i;
  }
  fmt::print("{}: worst logit error {:.2e}\n", model, error);
  return (*runner)->model().packing();
}

test::DriverRequest sampled_request(uint64_t id, int32_t prompt_tokens) {
  test::DriverRequest request{.id = id};
  for (int32_t i = 0; i < prompt_tokens; ++i)
    request.prompt.push_back(static_cast<TokenId>((i * 31 + static_cast<int32_t>(id) * 7) % 90));
  request.params.max_tokens = 9;
  request.params.temperature = 0.8f;
  request.params.seed = id;
  request.params.logprobs = 2;
  return request;
}

void expect_same(const test::DriverOutput& a, const test::DriverOutput& b) {
  ASSERT_TRUE(a.status.ok()) << a.status.message();
  EXPECT_EQ(a.token_ids, b.token_ids);
  ASSERT_EQ(a.logprobs.size(), b.logprobs.size());
  for (size_t i = 0; i < a.logprobs.size(); ++i) {
    EXPECT_EQ(std::bit_cast<uint32_t>(a.logprobs[i].logprob),
              std::bit_cast<uint32_t>(b.logprobs[i].logprob));
    EXPECT_EQ(a.logprobs[i].top, b.logprobs[i].top);
  }
}

}  // namespace quire::gpu_test
