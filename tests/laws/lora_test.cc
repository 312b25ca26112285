// Law L4 with LoRA adapters, through everything that a user's request passes except HTTP: the
// facade, the registry, the engine's thread, the scheduler, the prefix cache and the model. A
// request with an adapter gets the bits that it gets alone, whatever adapters the requests beside
// it use.
#include <gtest/gtest.h>

#include <bit>
#include <filesystem>
#include <map>
#include <random>

#include "engine/observe/engine_stats.h"
#include "facade/model_bundle.h"
#include "tests/support/test_data.h"

namespace quire {
namespace {

constexpr int32_t kVocab = 160;

std::filesystem::path goldens() { return test::source_dir() / "tests" / "goldens"; }

// Adapters by request index modulo six: the model itself, then one of five adapters.
const std::vector<std::string> kNames = {"", "plain", "rslora", "bias", "whole", "ends"};

struct Setup {
  const char* dtype = "float32";
  int32_t threads = 1;
  int32_t chunk = 0;       // limit of a request's prompt tokens per step
  int32_t num_blocks = 0;  // 0 means enough
  int32_t max_loras = 5;
  const char* speculative_config = "";
  int32_t tensor_parallel_size = 1;
  int32_t pipeline_parallel_size = 1;
};

Result<RunningModel> start(const Setup& setup) {
  EngineArgs args;
  args.model = (goldens() / "models" / "llama").string();
  args.dtype = setup.dtype;
  args.num_threads = setup.threads;
  args.block_size = 8;
  args.hardware = "none";
  args.speculative_config = setup.speculative_config;
  args.tensor_parallel_size = setup.tensor_parallel_size;
  args.pipeline_parallel_size = setup.pipeline_parallel_size;
  args.device = "cpu";
  args.engine.log_interval_us = 0;
  args.engine.kv_cache_bytes = int64_t{32} << 20;
  if (setup.num_blocks > 0) args.engine.num_blocks = setup.num_blocks;
  args.engine.scheduler.max_model_len = 112;
  args.engine.scheduler.max_num_batched_tokens = 256;
  args.engine.scheduler.max_num_seqs = 32;
  args.engine.scheduler.long_prefill_token_threshold = setup.chunk;
  args.engine.scheduler.watermark = 0.0;
  args.engine.scheduler.reserve_full_isl = false;
  args.lora = {.enabled = true, .max_loras = setup.max_loras, .max_lora_rank = 0};
  for (size_t i = 1; i < kNames.size(); ++i)
    args.lora.modules.push_back(
        {kNames[i], (goldens() / "lora" / ("llama." + kNames[i])).string()});
  return start_model(args);
}

RunningModel must_start(const Setup& setup) {
  Result<RunningModel> model = start(setup);
  QUIRE_CHECK(model.ok(), "{}", model.status().message());
  return std::move(*model);
}

// Returns a request for the index. Every prompt is sent with the model itself and with each
// adapter, and shares its beginning with all others.
GenerationRequest make_request(const RunningModel& model, size_t index) {
  std::mt19937 random(static_cast<uint32_t>(index / kNames.size() % 3));
  GenerationRequest request;
  request.external_id = "test";
  for (int i = 0; i < 40; ++i) request.prompt_token_ids.push_back((i * 37 + 5) % kVocab);
  for (int i = 0; i < 12; ++i)
    request.prompt_token_ids.push_back(static_cast<TokenId>(random() % kVocab));
  request.params.max_tokens = 24;
  request.params.ignore_eos = true;
  request.params.temperature = index % 3 == 0 ? 0.0f : 0.9f;
  request.params.seed = index / kNames.size();
  request.params.logprobs = 2;
  const std::string& name = kNames[index % kNames.size()];
  if (!name.empty()) request.adapter = model.adapters->find(name);
  return request;
}

struct Output {
  std::vector<TokenId> token_ids;
  std::vector<TokenLogprobs> logprobs;
  DraftCounts drafts;
};

Output read(OutputStream& stream) {
  Output output;
  while (auto delta = stream.pop()) {
    EXPECT_TRUE(delta->status.ok()) << delta->status.message();
    output.token_ids.insert(output.token_ids.end(), delta->token_ids.begin(),
                            delta->token_ids.end());
    output.logprobs.insert(output.logprobs.end(), delta->logprobs.begin(), delta->logprobs.end());
    output.drafts = delta->drafts;
  }
  return output;
}

std::vector<Output> run(const RunningModel& model, std::vector<GenerationRequest> requests) {
  std::vector<std::unique_ptr<OutputStream>> streams;
  for (GenerationRequest& request : requests) {
    auto stream = model.engine->submit(std::move(request), [] {});
    QUIRE_CHECK(stream.ok(), "{}", stream.status().message());
    streams.push_back(std::move(*stream));
  }
  std::vector<Output> outputs;
  for (const auto& stream : streams) outputs.push_back(read(*stream));
  return outputs;
}

void expect_same_bits(const Output& got, const Output& want, const std::string& what) {
  SCOPED_TRACE(what);
  ASSERT_EQ(got.token_ids, want.token_ids);
  ASSERT_EQ(got.logprobs.size(), want.logprobs.size());
  for (size_t i = 0; i < got.logprobs.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(got.logprobs[i].logprob),
              std::bit_cast<uint32_t>(want.logprobs[i].logprob))
        << "token " << i;
    ASSERT_EQ(got.logprobs[i].top, want.logprobs[i].top) << "token " << i;
  }
}

constexpr size_t kCrowd = 24;

// Runs each request by itself, in a model of its own on one thread, where no other adapter has run.
const std::vector<Output>& alone(const char* dtype) {
  static std::map<std::string, std::vector<Output>> known;
  std::vector<Output>& outputs = known[dtype];
  for (size_t i = outputs.size(); i < kCrowd; ++i) {
    const RunningModel model = must_start({.dtype = dtype});
    outputs.push_back(run(model, {make_request(model, i)})[0]);
  }
  return outputs;
}

EngineStats expect_crowd_as_alone(const Setup& setup) {
  const RunningModel model = must_start(setup);
  std::vector<GenerationRequest> crowd;
  for (size_t i = 0; i < kCrowd; ++i) crowd.push_back(make_request(model, i));
  const std::vector<Output> outputs = run(model, std::move(crowd));
  for (size_t i = 0; i < kCrowd; ++i)
    expect_same_bits(outputs[i], alone(setup.dtype)[i], fmt::format("request {}", i));
  return model.engine->stats();
}

class LoraLaw : public ::testing::TestWithParam<const char*> {};

TEST_P(LoraLaw, AdaptersChangeWhatIsSaid) {
  for (size_t i = 1; i < kNames.size(); ++i)
    EXPECT_NE(alone(GetParam())[i].logprobs[0].logprob, alone(GetParam())[0].logprobs[0].logprob);
}

TEST_P(LoraLaw, CrowdIsAsAlone) {
  for (const int32_t threads : {1, 2}) {
    for (const int32_t chunk : {0, 7}) {
      const EngineStats stats =
          expect_crowd_as_alone({.dtype = GetParam(), .threads = threads, .chunk = chunk});
      EXPECT_EQ(stats.num_preemptions, 0u);
    }
  }
}

TEST_P(LoraLaw, WaitingForAnotherAdapterChangesNothing) {
  expect_crowd_as_alone({.dtype = GetParam(), .threads = 2, .max_loras = 1});
}

TEST_P(LoraLaw, PreemptedIsAsAlone) {
  const EngineStats stats =
      expect_crowd_as_alone({.dtype = GetParam(), .threads = 2, .num_blocks = 60});
  EXPECT_GT(stats.num_preemptions, 0u);
}

TEST_P(LoraLaw, RanksChangeNothing) {
  for (const int32_t ranks : {2, 4}) {
    expect_crowd_as_alone(
        {.dtype = GetParam(), .chunk = 7, .num_blocks = 60, .tensor_parallel_size = ranks});
  }
}

// Runs one request after the other, each prompt twice: each finds only the blocks of its own
// adapter.
TEST_P(LoraLaw, PrefixHitIsAsAlone) {
  const RunningModel model = must_start({.dtype = GetParam(), .threads = 2});
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < kCrowd; ++i)
      expect_same_bits(run(model, {make_request(model, i)})[0], alone(GetParam())[i],
                       fmt::format("round {}, request {}", round, i));
  }
  EXPECT_GT(model.engine->stats().prefix_cache_hits, kCrowd * 40);
}

TEST_P(LoraLaw, DraftsChangeNothing) {
  for (const char* const config :
       {R"({"method":"ngram","num_speculative_tokens":3})",
        R"({"method":"self","num_hidden_layers":1,"num_speculative_tokens":3})"}) {
    expect_crowd_as_alone({.dtype = GetParam(), .threads = 2, .speculative_config = config});
  }
}

// A drafting model has no adapters, so it does not draft for their requests.
TEST(LoraDrafts, AreOfTheModelItselfAlone) {
  const RunningModel model = must_start(
      {.speculative_config =
           R"({"method":"self","num_hidden_layers":2,"num_speculative_tokens":3,"enable_adaptive_verification":false})"});
  const auto outputs = run(model, {make_request(model, 0), make_request(model, 1)});
  EXPECT_GT(outputs[0].drafts.num_drafts, 0);
  EXPECT_EQ(outputs[1].drafts.num_drafts, 0);
}

// A request continues with its adapter after the adapter is replaced; the next request gets the new
// one.
TEST_P(LoraLaw, ReplacedAndUnloadedWhileTheyRun) {
  const RunningModel model = must_start({.dtype = GetParam(), .threads = 2});
  std::vector<std::unique_ptr<OutputStream>> streams;
  for (size_t i = 0; i < kCrowd; ++i) {
    auto stream = model.engine->submit(make_request(model, i), [] {});
    ASSERT_TRUE(stream.ok());
    streams.push_back(std::move(*stream));
  }
  const std::string other = (goldens() / "lora" / "llama.rslora").string();
  ASSERT_TRUE(model.adapters->load({"plain", other}, IfLoaded::kReplace).ok());
  ASSERT_TRUE(model.adapters->unload("bias").ok());
  const GenerationRequest again = make_request(model, 1);
  for (size_t i = 0; i < kCrowd; ++i)
    expect_same_bits(read(*streams[i]), alone(GetParam())[i], fmt::format("request {}", i));
  GenerationRequest same_as_rslora = make_request(model, 2);
  same_as_rslora.adapter = again.adapter;
  expect_same_bits(run(model, {same_as_rslora})[0], alone(GetParam())[2], "the new version");
}

INSTANTIATE_TEST_SUITE_P(All, LoraLaw, ::testing::Values("float32", "bfloat16"),
                         [](const auto& info) { return std::string(info.param); });

// The memory plan has a slot for each adapter that may be loaded, and one for replacing.
TEST(LoraLimits, SlotsArePlanned) {
  const RunningModel model = must_start({.max_loras = 3});
  EXPECT_EQ(model.adapters->max_loaded(), 5);
  EXPECT_GT(model.plan.memory.adapters, 0);
  const std::string plain = (goldens() / "lora" / "llama.plain").string();
  EXPECT_EQ(model.adapters->load({"sixth", plain}).code(), StatusCode::kResourceExhausted);
  // Two new versions beside the loaded adapters do not fit while the first one is in use.
  const GenerationRequest holds = make_request(model, 1);
  EXPECT_TRUE(model.adapters->load({"plain", plain}, IfLoaded::kReplace).ok());
  const Status full = model.adapters->load({"plain", plain}, IfLoaded::kReplace);
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted) << full.message();
}

}  // namespace
}  // namespace quire
