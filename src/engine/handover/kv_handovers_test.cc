// One engine prefills and another one decodes, with a disk between them.
#include "engine/handover/kv_handovers.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/testing/engine_test_support.h"
#include "kv/testing/memory_kv_files.h"

namespace quire {
namespace {

using test::Answer;
using test::request;
using test::Rig;
using test::tokens;

constexpr int32_t kCellTokens = 2;

// Accepts jobs and never answers them.
class SilentFiles final : public KvFiles {
 public:
  void store(KvStoreJob) override {}
  void load(KvLoadJob) override {}
  void remove(std::string) override {}
  void poll(std::vector<KvFileEvent>&) override {}
  std::string file_set() const override { return "silent"; }
  Status check_file_set(const std::string&) const override { return {}; }
  Status look_for(std::span<const std::string>) override { return {}; }
  int64_t file_bytes(KvPool, int32_t num_cells, int32_t) const override { return num_cells; }
};

test::RigOptions rig_on(test::MemoryDisk& disk, KvHandoverOptions handover, uint32_t seed = 1,
                        int32_t block_size = 4) {
  test::RigOptions options = test::small_rig();
  options.fake.kv_spec.block_size = block_size;
  options.fake.keeps_blocks_on_host = true;
  options.engine.kv_offload_bytes = options.fake.kv_spec.block_bytes * 200;
  options.engine.kv.files = {.capacity_bytes = 1000, .run_blocks = 4, .cell_tokens = kCellTokens};
  options.engine.kv_handover = handover;
  options.engine.open_kv_files =
      [&disk, seed, block_cells = options.fake.kv_spec.block_size / kCellTokens](
          const KvHostMemory& memory) -> Result<std::unique_ptr<KvFiles>> {
    return std::unique_ptr<KvFiles>(new test::MemoryKvFiles(disk, memory, block_cells, seed, 0));
  };
  return options;
}

Answer prefill(Rig& rig, GenerationRequest r) {
  r.params.max_tokens = 1;
  r.num_choices = 1;
  r.hands_over_kv = true;
  return rig.ask(std::move(r));
}

GenerationRequest without_handover(GenerationRequest r) {
  r.handover = nullptr;
  return r;
}

TEST(KvHandovers, DecodingGoesOnWherePrefillEnded) {
  test::MemoryDisk disk;
  Rig prefiller(rig_on(disk, {.gives = true}));
  Rig decoder(rig_on(disk, {.takes = true}));
  Rig plain;
  for (const int32_t length : {1, 3, 4, 5, 16, 17, 63, 64, 65, 100}) {
    SCOPED_TRACE(length);
    GenerationRequest r = request(tokens(length, length), 12);
    r.params.temperature = length % 2 == 0 ? 0.0f : 1.0f;
    r.params.logprobs = 2;
    r.num_choices = length % 3 == 0 ? 3 : 1;
    const Answer given = prefill(prefiller, r);
    ASSERT_EQ(given.finish_reason, FinishReason::kLength);
    const int32_t num_tokens = (length - 1) / 4 * 4;
    ASSERT_EQ(given.handover != nullptr, num_tokens > 0);
    if (given.handover != nullptr) {
      EXPECT_EQ(given.handover->num_tokens, num_tokens);
    }
    const auto alone = plain.submit(r);
    r.handover = given.handover;
    const auto id = decoder.submit(r);
    ASSERT_TRUE(id.ok() && alone.ok()) << id.status().message();
    decoder.run();
    plain.run();
    for (size_t i = 0; i < static_cast<size_t>(r.num_choices); ++i) {
      EXPECT_EQ(decoder.answer(*id, i).token_ids, plain.answer(*alone, i).token_ids);
      EXPECT_EQ(decoder.answer(*id, i).status.message(), "");
    }
    EXPECT_GE(decoder.answer(*id).num_cached_tokens, num_tokens);
  }
  EXPECT_EQ(decoder.engine().stats().kv_files->takeovers, 7);
  EXPECT_EQ(decoder.engine().stats().kv_files->takeovers_failed, 0);
  EXPECT_EQ(prefiller.engine().stats().kv_files->handovers, 7);
}

// The two engines have blocks of different sizes.
TEST(KvHandovers, BlocksMayBeOfUnlikeSizes) {
  for (const auto& [giving, taking] : {std::pair{2, 8}, {8, 2}, {4, 6}, {6, 4}, {16, 10}}) {
    SCOPED_TRACE(testing::Message() << giving << " to " << taking);
    test::MemoryDisk disk;
    Rig prefiller(rig_on(disk, {.gives = true}, 1, giving));
    Rig decoder(rig_on(disk, {.takes = true}, 2, taking));
    Rig plain;
    int64_t num_taken = 0;
    for (const int32_t length : {5, 17, 40, 63, 100}) {
      SCOPED_TRACE(length);
      GenerationRequest r = request(tokens(length, length), 12);
      const Answer given = prefill(prefiller, r);
      const int32_t num_given = (length - 1) / giving * giving;
      ASSERT_EQ(given.handover != nullptr, num_given > 0);
      r.handover = given.handover;
      const Answer answer = decoder.ask(r);
      EXPECT_EQ(answer.status.message(), "");
      EXPECT_EQ(answer.token_ids, plain.ask(without_handover(r)).token_ids);
      EXPECT_GE(answer.num_cached_tokens, num_given / taking * taking);
      num_taken += num_given >= taking ? 1 : 0;
    }
    decoder.ask(request(tokens(2), 1));  // a step that publishes the counters
    EXPECT_EQ(decoder.engine().stats().kv_files->takeovers, num_taken);
    EXPECT_EQ(decoder.engine().stats().kv_files->takeovers_failed, 0);
  }
}

// Handovers that a client made up, or of another model or tenant, or whose files are gone.
TEST(KvHandovers, WhatIsNotThereFailsOrIsComputed) {
  for (const bool recomputes : {false, true}) {
    test::MemoryDisk disk;
    Rig prefiller(rig_on(disk, {.gives = true}));
    Rig decoder(rig_on(disk, {.takes = true, .recomputes = recomputes}));
    const GenerationRequest r = request(tokens(50), 12);
    const auto expected = decoder.fake().expected_output(r.prompt_token_ids, r.params);
    const KvHandover given = *prefill(prefiller, r).handover;
    const auto expect_refused = [&](KvHandover handover, std::string salt = "") {
      GenerationRequest asked = r;
      asked.handover = std::make_shared<const KvHandover>(std::move(handover));
      asked.cache_keys.salt = std::move(salt);
      const int64_t before = decoder.engine().stats().kv_files->takeovers_failed;
      const auto id = decoder.submit(asked);
      if (id.ok()) decoder.run();
      const Status status = id.ok() ? decoder.answer(*id).status : id.status();
      if (recomputes) {
        EXPECT_TRUE(status.ok()) << status.message();
        EXPECT_EQ(decoder.answer(*id).token_ids, expected);
        EXPECT_TRUE(decoder.engine().reset_prefix_cache().ok());
      } else {
        EXPECT_EQ(status.code(), StatusCode::kUnavailable);
      }
      decoder.ask(request(tokens(2), 1));  // a step that publishes the counters
      EXPECT_EQ(decoder.engine().stats().kv_files->takeovers_failed, before + 1);
    };
    expect_refused({.file_set = "another", .files = given.files, .num_tokens = given.num_tokens});
    expect_refused({.file_set = given.file_set, .files = {"../../etc/passwd"}, .num_tokens = 48});
    expect_refused({.file_set = given.file_set,
                    .files = std::vector<std::string>(1000, given.files[0]),
                    .num_tokens = 48});
    expect_refused({.file_set = given.file_set, .files = given.files, .num_tokens = -1});
    expect_refused({.file_set = given.file_set, .files = {}, .num_tokens = 48},
                   "a tenant of its own");
    expect_refused(given, "another tenant");
    disk.clear();
    expect_refused(given);
  }
}

TEST(KvHandovers, OnlyWhereTheServerDoesThat) {
  test::MemoryDisk disk;
  Rig neither(rig_on(disk, {}));
  GenerationRequest r = request(tokens(20), 1);
  r.hands_over_kv = true;
  EXPECT_EQ(neither.submit(r).status().code(), StatusCode::kInvalidArgument);
  r.hands_over_kv = false;
  r.handover = std::make_shared<const KvHandover>();
  EXPECT_EQ(neither.submit(r).status().code(), StatusCode::kInvalidArgument);
}

test::RigOptions silent_rig() {
  test::MemoryDisk none;
  test::RigOptions options = rig_on(none, {.gives = true, .lease_us = 50'000});
  options.engine.open_kv_files = [](const KvHostMemory&) -> Result<std::unique_ptr<KvFiles>> {
    return std::unique_ptr<KvFiles>(new SilentFiles);
  };
  return options;
}

// Files that never answer delay an answer by one lease, and keep its blocks no longer than that.
TEST(KvHandovers, TheWaitIsBounded) {
  Rig rig(silent_rig());
  GenerationRequest r = request(tokens(20), 1);
  r.hands_over_kv = true;
  const auto id = rig.submit(r);
  ASSERT_TRUE(id.ok());
  for (int i = 0; i < 10; ++i) rig.engine().step();
  rig.read();
  EXPECT_FALSE(rig.answer(*id).finish_reason.has_value());
  EXPECT_FALSE(rig.engine().reset_prefix_cache().ok());  // the prompt's blocks are kept
  rig.clock().advance_us(50'000);
  rig.run();
  EXPECT_EQ(rig.answer(*id).finish_reason, FinishReason::kLength);
  EXPECT_EQ(rig.answer(*id).handover, nullptr);
  EXPECT_EQ(rig.engine().stats().kv_files->handovers_cut, 1);
  EXPECT_TRUE(rig.engine().reset_prefix_cache().ok());
}

TEST(KvHandovers, AClientThatLeavesHoldsNothing) {
  Rig rig(silent_rig());
  GenerationRequest r = request(tokens(20), 1);
  r.hands_over_kv = true;
  const auto id = rig.submit(r);
  ASSERT_TRUE(id.ok());
  for (int i = 0; i < 10; ++i) rig.engine().step();
  rig.engine().abort(*id);
  EXPECT_FALSE(rig.engine().has_unfinished());
  rig.read();
  EXPECT_EQ(rig.answer(*id).finish_reason, FinishReason::kAbort);
  EXPECT_TRUE(rig.engine().reset_prefix_cache().ok());
}

// Together the prompts have more blocks than memory can hold on their way to files.
TEST(KvHandovers, LittleMemoryTakesSeveralGoes) {
  test::MemoryDisk disk;
  auto options = rig_on(disk, {.gives = true});
  options.engine.kv_offload_bytes = options.fake.kv_spec.block_bytes * 9;
  Rig prefiller(options);
  for (int32_t i = 0; i < 5; ++i) {
    const Answer given = prefill(prefiller, request(tokens(100, i + 1), 1));
    ASSERT_NE(given.handover, nullptr);
    EXPECT_EQ(given.handover->num_tokens, 96);
  }
}

// Random prompts go through both engines, while files between them are lost and damaged: each
// answer is that of a request alone, or says that its KV was not there.
TEST(KvHandovers, RandomTraffic) {
  int64_t num_taken = 0, num_failed = 0;
  for (uint32_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 rng(seed);
    test::MemoryDisk disk;
    auto giving = rig_on(disk, {.gives = true, .lease_us = 1'000'000}, seed);
    giving.engine.kv_offload_bytes =
        giving.fake.kv_spec.block_bytes * static_cast<int64_t>(12 + rng() % 100);
    giving.engine.kv.files.capacity_bytes = 40 + static_cast<int64_t>(rng() % 300);
    auto taking = giving;
    const bool recomputes = rng() % 2 == 0;
    taking.engine.kv_handover = {.takes = true, .recomputes = recomputes};
    taking.engine.num_blocks = 40 + static_cast<int32_t>(rng() % 60);
    Rig prefiller(giving), decoder(taking);
    std::vector<std::pair<GroupId, GenerationRequest>> sent;
    for (int i = 0; i < 40; ++i) {
      GenerationRequest r = request(
          tokens(1 + static_cast<int32_t>(rng() % 100), 1 + static_cast<int32_t>(rng() % 5)),
          1 + static_cast<int32_t>(rng() % 20));
      r.params.temperature = rng() % 2 ? 1.0f : 0.0f;
      const Answer given = prefill(prefiller, r);
      ASSERT_EQ(given.finish_reason, FinishReason::kLength);
      if (rng() % 4 == 0 && !disk.empty()) disk.erase(disk.begin());
      r.handover = given.handover;
      const auto id = decoder.submit(r);
      if (id.ok()) {
        sent.emplace_back(*id, r);
      } else {
        ASSERT_EQ(id.status().code(), StatusCode::kUnavailable) << id.status().message();
      }
      for (auto n = rng() % 10; n > 0; --n) decoder.engine().step();
      decoder.read();
    }
    decoder.run();
    for (const auto& [id, r] : sent) {
      const Answer& answer = decoder.answer(id);
      if (!answer.status.ok()) {
        ASSERT_FALSE(recomputes);
        ASSERT_EQ(answer.status.code(), StatusCode::kUnavailable);
        continue;
      }
      ASSERT_EQ(answer.token_ids, decoder.fake().expected_output(r.prompt_token_ids, r.params));
    }
    decoder.ask(request(tokens(2), 1));
    num_taken += decoder.engine().stats().kv_files->takeovers;
    num_failed += decoder.engine().stats().kv_files->takeovers_failed;
  }
  EXPECT_GT(num_taken, 300);
  EXPECT_GT(num_failed, 30);
}

}  // namespace
}  // namespace quire
