// These engines hand KV over to each other through files, for tests of law L4.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "exec/model_plan.h"
#include "tests/laws/golden_model.h"
#include "tests/support/temp_folder.h"
#include "transfer/kv_file_store.h"

namespace quire::handover_test {

inline constexpr int32_t kPromptTokens = 70;
inline constexpr int32_t kOutputTokens = 12;

struct TestModel {
  std::string name;
  std::string kv_dtype = "auto";
};

inline ModelRunnerOptions runner_options(const TestModel& model, int32_t block_size) {
  ModelRunnerOptions options;
  options.files = test::golden_model(model.name);
  options.kv_cache_dtype = model.kv_dtype;
  options.block_size = block_size;
  options.state_block_size = block_size;
  options.max_model_len = 96;
  options.kv_cache_memory_bytes = int64_t{32} << 20;
  options.host_kv_bytes = int64_t{8} << 20;
  options.threads = 1;
  options.max_num_batched_tokens = 64;
  options.max_num_seqs = 8;
  return options;
}

struct Text {
  Status status;
  std::vector<TokenId> token_ids;
  std::vector<TokenLogprobs> logprobs;
  std::shared_ptr<const KvHandover> handover;
  int32_t num_cached_tokens = 0;
};

class Server {
 public:
  // An empty `folder` means that the engine uses no files.
  Server(std::unique_ptr<Executor> executor, int32_t block_size, const std::string& folder,
         const KvHandoverOptions& handover = {}) {
    EngineOptions options;
    options.num_blocks = 60;
    options.log_interval_us = 0;
    options.scheduler.max_model_len = 96;
    options.scheduler.max_num_seqs = 8;
    options.scheduler.max_num_batched_tokens = 24;  // so that a prompt takes several steps
    if (!folder.empty()) {
      auto directory = KvDirectory::open(folder, {1, 2, 3});
      QUIRE_CHECK(directory.ok(), "{}", directory.status().message());
      options.kv.hash_seed = directory->hash_seed();
      options.kv.files = {.capacity_bytes = int64_t{1} << 30, .run_blocks = 2};
      options.kv_offload_bytes = int64_t{8} << 20;
      options.kv_handover = handover;
      options.open_kv_files = [directory = *directory, block_size](const KvHostMemory& memory) {
        return make_kv_file_store(directory, memory, block_size);
      };
    }
    auto engine =
        Engine::create(options, std::move(executor), nullptr, std::make_shared<SteadyClock>());
    QUIRE_CHECK(engine.ok(), "{}", engine.status().message());
    engine_ = *std::move(engine);
  }
  ~Server() { EXPECT_EQ(engine_->stats().kv_blocks_in_use, 0); }

  Text ask(GenerationRequest request) {
    Text text;
    text.status = engine_->prepare(request);
    if (!text.status.ok()) return text;
    auto channel = std::make_shared<OutputChannel>(1, StreamLimits{}, nullptr);
    text.status = engine_->add({GroupId(++num_requests_), std::move(request), channel});
    while (text.status.ok() && engine_->has_unfinished()) {
      if (!engine_->step()) std::this_thread::sleep_for(std::chrono::microseconds(100));
      while (auto delta = channel->try_pop()) take(*delta, text);
    }
    return text;
  }
  EngineStats stats() const { return engine_->stats(); }

 private:
  static void take(OutputDelta& delta, Text& text) {
    text.token_ids.insert(text.token_ids.end(), delta.token_ids.begin(), delta.token_ids.end());
    text.logprobs.insert(text.logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
    if (delta.handover != nullptr) text.handover = delta.handover;
    if (!delta.status.ok()) text.status = delta.status;
    text.num_cached_tokens = std::max(text.num_cached_tokens, delta.num_cached_tokens);
  }

  std::unique_ptr<Engine> engine_;
  uint64_t num_requests_ = 0;
};

inline GenerationRequest make_request(uint32_t seed) {
  GenerationRequest request;
  request.external_id = "test";
  for (int32_t i = 0; i < kPromptTokens; ++i)
    request.prompt_token_ids.push_back(static_cast<TokenId>((seed * 31 + i * 7) % 150 + 3));
  request.params.max_tokens = kOutputTokens;
  request.params.ignore_eos = true;
  request.params.temperature = 1.0f;
  request.params.seed = 5;
  request.params.logprobs = 2;
  return request;
}

inline GenerationRequest first_leg(GenerationRequest request) {
  request.params.max_tokens = 1;
  request.hands_over_kv = true;
  return request;
}

inline void expect_same_bits(const Text& got, const Text& want) {
  ASSERT_TRUE(got.status.ok()) << got.status.message();
  ASSERT_EQ(got.token_ids, want.token_ids);
  ASSERT_EQ(got.logprobs.size(), want.logprobs.size());
  for (size_t i = 0; i < got.logprobs.size(); ++i)
    EXPECT_EQ(std::bit_cast<uint32_t>(got.logprobs[i].logprob),
              std::bit_cast<uint32_t>(want.logprobs[i].logprob));
}

}  // namespace quire::handover_test
