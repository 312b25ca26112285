// Law L4 through ModelRunner: a request's token ids and logprobs are the same bits alone, in a
// crowd, in any chunks, after prefix hits, after a preemption, on one thread and on two.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <random>

#include "device/isa.h"
#include "exec/model_runner.h"
#include "exec/testing/golden_support.h"
#include "exec/testing/l4_support.h"
#include "exec/testing/test_driver.h"
#include "tests/support/test_data.h"

namespace quire {
namespace {

using test::DriverOptions;
using test::DriverOutput;
using test::DriverRequest;
using test::PlanDriver;

constexpr int32_t kNumBlocks = 8192;
using test::expect_same_bits;
using test::kOutputTokens;
using test::kPromptTokens;
using test::make_crowd;
using test::make_request;

struct Setup {
  std::string model;
  const char* dtype;
  const char* isa = "auto";
  const char* kv_cache_dtype = "auto";
  bool activation_int8 = false;
};

std::string name_of(const ::testing::TestParamInfo<Setup>& info) {
  std::string name = info.param.model + "_" + info.param.dtype + "_" + info.param.isa;
  if (info.param.kv_cache_dtype != std::string("auto"))
    name = name + "_" + info.param.kv_cache_dtype;
  if (info.param.activation_int8) name += "_activation_int8";
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

bool has_states(const ModelRunner& runner) { return runner.kv_spec().uses(KvPool::kState); }

class LawL4 : public ::testing::TestWithParam<Setup> {
 protected:
  void SetUp() override {
    const auto isa = parse_isa(GetParam().isa);
    if (!isa.ok()) GTEST_SKIP() << "SKIPPED: " << isa.status().message();
  }

  std::unique_ptr<ModelRunner> load(int threads) {
    auto files = ModelFiles::open(test::golden_model(test::golden_dir(GetParam().model)));
    QUIRE_CHECK(files.ok(), "{}", files.status().message());
    ModelRunnerOptions options;
    options.files = std::make_shared<const ModelFiles>(std::move(*files));
    options.dtype = GetParam().dtype;
    options.kv_cache_dtype = GetParam().kv_cache_dtype;
    options.kv_cache_memory_bytes = int64_t{1} << 30;
    options.isa = GetParam().isa;
    options.activation_int8 = GetParam().activation_int8;
    options.threads = threads;
    options.state_block_size = 16;  // so that hits of few blocks end at snapshots
    options.pin_threads = false;
    options.max_num_batched_tokens = 4096;
    options.max_num_seqs = 64;
    options.max_logits_bytes = 5 * 160 * 4;  // so that logits are computed in several batches
    auto runner = ModelRunner::create(options);
    QUIRE_CHECK(runner.ok(), "{}", runner.status().message());
    QUIRE_CHECK(
        (*runner)->initialize({.num_blocks = kNumBlocks, .num_state_blocks = kNumBlocks}).ok());
    return std::move(*runner);
  }

  DriverOutput alone(ModelRunner& runner, bool prompt_logprobs) {
    PlanDriver driver(runner, kNumBlocks);
    DriverRequest request = make_request(1, 5, kPromptTokens);
    if (prompt_logprobs) request.params.prompt_logprobs = 3;
    return driver.run({request}, {})[1];
  }
};

TEST_P(LawL4, CrowdChunksAndThreads) {
  const auto one_thread = load(1);
  const auto two_threads = load(2);
  const DriverOutput want = alone(*one_thread, false);
  ASSERT_EQ(want.token_ids.size(), static_cast<size_t>(kOutputTokens));
  for (const auto& [runner, threads] : {std::pair(one_thread.get(), std::string("1 thread")),
                                        {two_threads.get(), std::string("2 threads")}}) {
    expect_same_bits(alone(*runner, false), want, threads);
    for (const int32_t chunk : {1, 7, 64, 512}) {
      PlanDriver driver(*runner, kNumBlocks);
      const DriverOptions options{.chunk = chunk, .step_tokens = 512};
      auto output = driver.run({make_request(1, 5, kPromptTokens)}, options);
      expect_same_bits(output[1], want, fmt::format("{}, alone, chunk {}", threads, chunk));
    }
    for (const int32_t chunk : {7, 512}) {
      PlanDriver driver(*runner, kNumBlocks);
      auto crowd = driver.run(make_crowd(100, 16), {.chunk = chunk, .step_tokens = 300});
      expect_same_bits(crowd[100], want, fmt::format("{}, among 32, chunk {}", threads, chunk));
    }
  }
}

TEST_P(LawL4, PrefixHits) {
  const auto runner = load(2);
  const DriverOutput want = alone(*runner, false);
  PlanDriver driver(*runner, kNumBlocks);
  auto crowd = driver.run(make_crowd(100, 3), {.chunk = 11, .step_tokens = 128});
  const int32_t full = (kPromptTokens - 1) / runner->kv_spec().block_size;
  for (const int32_t num_blocks : {1, 2, full}) {
    const DriverOutput got = driver.run_after_hit(
        make_request(200 + static_cast<uint64_t>(num_blocks), 5, kPromptTokens), 100, num_blocks,
        {});
    expect_same_bits(got, want, fmt::format("after a hit of {} blocks", num_blocks));
  }
}

TEST_P(LawL4, Preemption) {
  const auto runner = load(1);
  const DriverOutput want = alone(*runner, false);
  for (const int32_t after : {1, 7}) {
    PlanDriver driver(*runner, kNumBlocks);
    const DriverOptions options{.chunk = 33, .step_tokens = 256, .preempt_after_output = after};
    auto crowd = driver.run(make_crowd(100, 20), options);
    expect_same_bits(crowd[100], want, fmt::format("preempted after {} tokens", after));
  }
}

TEST_P(LawL4, PromptLogprobs) {
  const auto runner = load(2);
  const DriverOutput want = alone(*runner, true);
  ASSERT_EQ(want.prompt_logprobs.size(), static_cast<size_t>(kPromptTokens - 1));
  PlanDriver driver(*runner, kNumBlocks);
  std::vector<DriverRequest> crowd = make_crowd(100, 9);
  crowd[9].params.prompt_logprobs = 3;
  crowd[2].params.prompt_logprobs = 0;
  auto outputs = driver.run(crowd, {.chunk = 13, .step_tokens = 200});
  expect_same_bits(outputs[100], want, "among 32");
}

// Right and wrong drafts with penalties, bad words and min_tokens, alone and in a crowd.
TEST_P(LawL4, Drafts) {
  const auto runner = load(2);
  if (has_states(*runner)) GTEST_SKIP() << "SKIPPED: states take no drafts";
  for (const bool processed : {false, true}) {
    std::vector<DriverRequest> crowd = make_crowd(100, 16);
    for (DriverRequest& request : crowd) {
      if (!processed) request.params.repetition_penalty = 1.0f;
      request.params.temperature = request.id % 3 == 0 ? 0.0f : 0.9f;
      if (!processed && request.id % 2 == 0) request.params.logprobs.reset();
      if (!processed) continue;
      request.params.frequency_penalty = 0.3f;
      request.params.bad_words = {{3}, {11, 12}, {40, 41, 42}};
      request.params.min_tokens = 9;
      request.params.stop_token_ids = {1, 2, 40};
    }
    PlanDriver plain(*runner, kNumBlocks);
    const auto want = plain.run(crowd, {.step_tokens = 300});
    DriverOptions options{.chunk = 40, .step_tokens = 300, .num_drafts = 3};
    for (const auto& [id, output] : want) options.outputs[id] = output.token_ids;
    PlanDriver driver(*runner, kNumBlocks);
    const auto together = driver.run(crowd, options);
    EXPECT_GT(driver.num_accepted_drafts(), 100);
    options.preempt_after_output = 5;
    PlanDriver again(*runner, kNumBlocks);
    const auto preempted = again.run(crowd, options);
    for (const DriverRequest& request : crowd) {
      expect_same_bits(together.at(request.id), want.at(request.id), "in a crowd, with drafts");
      expect_same_bits(preempted.at(request.id), want.at(request.id), "preempted, with drafts");
    }
    options.num_drafts = 7;
    PlanDriver alone(*runner, kNumBlocks);
    expect_same_bits(alone.run({crowd[16]}, options)[100], want.at(100), "alone, with drafts");
  }
}

TEST_P(LawL4, TokenMasks) {
  const auto runner = load(2);
  const int32_t vocab_size = runner->info().vocab_size;
  const auto mask = [&](std::span<const TokenId> known) {
    return test::third_mask(vocab_size, known);
  };
  for (const float temperature : {0.0f, 0.9f}) {
    DriverRequest masked = make_request(1, 5, kPromptTokens);
    masked.params.temperature = temperature;
    masked.mask = mask;
    PlanDriver driver(*runner, kNumBlocks);
    const DriverOutput want = driver.run({masked}, {})[1];
    ASSERT_TRUE(want.status.ok()) << want.status.message();
    TokenId last = masked.prompt.back();
    for (const TokenId id : want.token_ids) EXPECT_NE((id + std::exchange(last, id)) % 3, 0);
    std::vector<DriverRequest> crowd = make_crowd(100, 16);
    crowd[16].params.temperature = temperature;
    crowd[16].mask = mask;
    crowd[3].mask = mask;
    auto outputs = driver.run(crowd, {.chunk = 13, .step_tokens = 200, .preempt_after_output = 4});
    expect_same_bits(outputs[100], want, "among 32");
    if (has_states(*runner)) continue;  // models with states take no drafts
    PlanDriver drafts(*runner, kNumBlocks);
    auto drafted = drafts.run({masked}, {.num_drafts = 4, .outputs = {{1, want.token_ids}}});
    EXPECT_GT(drafts.num_accepted_drafts(), 5);
    expect_same_bits(drafted[1], want, "with drafts");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, LawL4,
    ::testing::Values(Setup{"llama", "float32"}, Setup{"llama", "bfloat16"},
                      Setup{"gemma3", "float32"}, Setup{"gemma3", "bfloat16"},
                      Setup{"qwen3", "float32"}, Setup{"qwen3", "bfloat16"},
                      Setup{"gpt2", "float32"}, Setup{"gpt2", "bfloat16"},
                      Setup{"llama_dynamic", "float32"}, Setup{"phi3_long", "float16"},
                      Setup{"mistral", "bfloat16"}, Setup{"awq_qwen2", "float32"},
                      Setup{"gptq_order_llama", "auto"}, Setup{"packed_mixed_llama", "auto"},
                      Setup{"int8_phi3", "auto"}, Setup{"fp8_block_qwen3", "auto"},
                      Setup{"gguf_k_mix_qwen2", "auto"}, Setup{"gguf_grid_mix_llama", "auto"},
                      Setup{"bitnet_bitnet", "auto"}),
    name_of);

// Returns the first golden of every family. It is computed once per process, because GoogleTest
// calls it for each test of the suite.
const std::vector<Setup>& one_of_every_family() {
  static std::vector<Setup> setups;
  if (!setups.empty()) return setups;
  std::map<const Family*, std::string> first;
  for (const std::string& name : test::model_golden_names())
    first.try_emplace(test::golden_config(name).family, name);
  for (const auto& [family, name] : first) setups.push_back({name, "bfloat16"});
  std::sort(setups.begin(), setups.end(),
            [](const Setup& a, const Setup& b) { return a.model < b.model; });
  return setups;
}
INSTANTIATE_TEST_SUITE_P(Families, LawL4, ::testing::ValuesIn(one_of_every_family()), name_of);

// Kinds of blocks that the families above do not have, and kernel options on other instruction
// sets.
INSTANTIATE_TEST_SUITE_P(
    Blocks, LawL4,
    ::testing::Values(Setup{"falcon_rw", "bfloat16"}, Setup{"stablelm_parallel", "bfloat16"},
                      Setup{"cohere_qk_norm", "float32"}, Setup{"bloom", "float32", "portable"},
                      Setup{"bloom", "bfloat16", "avx2"}, Setup{"bloom", "bfloat16", "avx512-core"},
                      Setup{"mpt", "bfloat16", "auto", "int8"},
                      Setup{"gemma3n_streams", "float32", "portable"},
                      Setup{"deepseek_v32", "bfloat16", "avx2", "int8"},
                      Setup{"glm_moe_dsa", "float32", "portable"},
                      Setup{"glm_moe_dsa", "bfloat16", "amx-emulated", "fp8"}),
    name_of);

// Mixtures of experts: the other tokens of an expert change no bit of a token.
INSTANTIATE_TEST_SUITE_P(Experts, LawL4,
                         ::testing::Values(Setup{"qwen3_moe", "float32"},
                                           Setup{"qwen2_moe", "bfloat16", "avx2"},
                                           Setup{"mixtral", "float32", "portable"},
                                           Setup{"glm4_moe", "bfloat16", "avx512-core"},
                                           Setup{"gpt_oss", "bfloat16"},
                                           Setup{"llama4", "float32", "avx2"},
                                           Setup{"gpt_oss", "bfloat16", "amx-emulated"}),
                         name_of);

// Layers with a state, alone and beside attention, MLPs and experts.
INSTANTIATE_TEST_SUITE_P(
    States, LawL4,
    ::testing::Values(Setup{"lfm2", "bfloat16"}, Setup{"lfm2", "float32", "portable"},
                      Setup{"qwen3_next", "float32"}, Setup{"qwen3_5", "bfloat16", "avx2"},
                      Setup{"granitemoehybrid", "bfloat16"}, Setup{"falcon_h1", "bfloat16"},
                      Setup{"mamba2", "float32", "avx2"}, Setup{"mamba", "bfloat16"},
                      Setup{"nemotron_h", "float32", "portable"}, Setup{"jamba", "bfloat16"},
                      Setup{"lfm2_moe", "bfloat16"}, Setup{"qwen3_5_moe", "bfloat16"},
                      Setup{"bamba", "bfloat16"}, Setup{"falcon_mamba", "bfloat16"},
                      Setup{"zamba2_one_block", "float32", "avx2"}),
    name_of);

// A token's codes depend on that token alone, so quantized caches keep the law.
INSTANTIATE_TEST_SUITE_P(QuantizedCaches, LawL4,
                         ::testing::Values(Setup{"llama", "bfloat16", "auto", "fp8"},
                                           Setup{"gemma3", "bfloat16", "auto", "int8"},
                                           Setup{"qwen3", "float32", "auto", "fp8_e5m2"},
                                           Setup{"mistral", "bfloat16", "avx2", "int8"},
                                           Setup{"llama", "bfloat16", "portable", "fp8_e4m3"}),
                         name_of);

// A group's codes depend on that group alone.
INSTANTIATE_TEST_SUITE_P(
    ActivationsOfInt8, LawL4,
    ::testing::Values(Setup{"gguf_k_mix_qwen2", "auto", "auto", "auto", true},
                      Setup{"gptq_order_llama", "auto", "auto", "auto", true},
                      Setup{"gguf_k_mix_qwen2", "auto", "avx512", "auto", true},
                      Setup{"gguf_k_mix_qwen2", "auto", "avx512-core", "auto", true},
                      Setup{"gguf_k_mix_qwen2", "auto", "avx2", "auto", true},
                      Setup{"gguf_k_mix_qwen2", "auto", "portable", "auto", true}),
    name_of);

// Every instruction set that this machine has.
INSTANTIATE_TEST_SUITE_P(
    InstructionSets, LawL4,
    ::testing::Values(Setup{"llama", "float32", "portable"}, Setup{"llama", "bfloat16", "portable"},
                      Setup{"llama", "bfloat16", "avx2"}, Setup{"llama", "bfloat16", "avx512-core"},
                      Setup{"llama", "bfloat16", "amx"}, Setup{"llama", "bfloat16", "amx-emulated"},
                      Setup{"gemma3", "bfloat16", "avx2"},
                      Setup{"packed_mixed_llama", "auto", "avx2-core"},
                      Setup{"packed_mixed_llama", "auto", "avx2"},
                      Setup{"packed_mixed_llama", "auto", "avx512-vnni"},
                      Setup{"packed_mixed_llama", "auto", "amx-emulated"}),
    name_of);

}  // namespace
}  // namespace quire
