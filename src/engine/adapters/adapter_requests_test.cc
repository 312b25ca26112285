// Requests with adapters through the engine, on FakeExecutor: their tokens are those of their
// adapter, the prefix cache does not mix adapters, and a drafting model does not draft for them.
#include <gtest/gtest.h>

#include "draft/executor_drafter.h"
#include "engine/adapters/adapter_registry.h"
#include "engine/testing/engine_test_support.h"

namespace quire {
namespace {

using test::request;
using test::Rig;
using test::RigOptions;
using test::small_rig;
using test::tokens;

RigOptions adapter_rig() {
  RigOptions options = small_rig();
  options.fake.takes_adapters = true;
  options.engine.scheduler.max_loras = 2;
  return options;
}

std::shared_ptr<const Adapter> load(Rig& rig, const std::string& name, const std::string& path) {
  auto adapter = rig.engine().executor().load_adapter(name, path);
  EXPECT_TRUE(adapter.ok()) << adapter.status().message();
  return std::move(*adapter);
}

GenerationRequest request_with(std::shared_ptr<const Adapter> adapter, int32_t num_tokens = 20) {
  GenerationRequest r = request(tokens(40), num_tokens);
  r.adapter = std::move(adapter);
  return r;
}

std::vector<TokenId> expected(Rig& rig, const GenerationRequest& r) {
  return rig.fake().expected_output(r.prompt_token_ids, r.params, {}, r.adapter.get());
}

// The same prompt with and without adapters: no request reads another adapter's blocks, and each
// finds its own.
TEST(AdapterRequests, PrefixCacheMixesNone) {
  Rig rig(adapter_rig());
  const std::vector<std::shared_ptr<const Adapter>> adapters = {nullptr, load(rig, "a", "/a"),
                                                                load(rig, "b", "/b")};
  for (int round = 0; round < 2; ++round) {
    for (const auto& adapter : adapters) {
      const GenerationRequest r = request_with(adapter);
      const auto answer = rig.ask(r);
      EXPECT_EQ(answer.token_ids, expected(rig, r));
      EXPECT_EQ(answer.num_cached_tokens > 0, round > 0);
    }
  }
  // Another version under the same name, and the same content under another name.
  EXPECT_EQ(rig.ask(request_with(load(rig, "a", "/a2"))).num_cached_tokens, 0);
  EXPECT_GT(rig.ask(request_with(load(rig, "c", "/a"))).num_cached_tokens, 0);
  // A client's cache salt is not taken for an adapter.
  GenerationRequest forged = request_with(nullptr);
  forged.cache_keys.adapter = "/a";
  EXPECT_EQ(rig.ask(forged).token_ids, expected(rig, forged));
}

// Many requests under preemption, with more adapters than may run at once.
TEST(AdapterRequests, CrowdGetsEverybodysOwnTokens) {
  RigOptions options = adapter_rig();
  options.engine.num_blocks = 60;
  Rig rig(options);
  std::vector<std::shared_ptr<const Adapter>> adapters = {nullptr};
  for (const char* path : {"/a", "/b", "/c"}) adapters.push_back(load(rig, path, path));
  std::vector<std::pair<GroupId, GenerationRequest>> asked;
  for (size_t i = 0; i < 24; ++i) {
    GenerationRequest r = request_with(adapters[i % adapters.size()], 30);
    r.params.seed = i % 3;
    r.params.temperature = i % 2 == 0 ? 0.0f : 1.0f;
    r.num_choices = i % 5 == 3 && i % 2 == 1 ? 2 : 1;
    const auto id = rig.submit(r);
    ASSERT_TRUE(id.ok()) << id.status().message();
    asked.emplace_back(*id, r);
  }
  while (rig.engine().step()) {
    rig.read();
    int64_t num_adapters = 0;
    for (const AdapterRequests& use : rig.engine().stats().adapters)
      num_adapters += use.num_running > 0 ? 1 : 0;
    ASSERT_LE(num_adapters, 2);
  }
  for (const auto& [id, r] : asked) EXPECT_EQ(rig.answer(id).token_ids, expected(rig, r));
  EXPECT_GT(rig.engine().stats().num_preemptions, 0u);
  EXPECT_TRUE(rig.engine().stats().adapters.empty());
}

TEST(AdapterRequests, AreCountedByName) {
  RigOptions options = adapter_rig();
  options.engine.scheduler.max_loras = 1;
  Rig rig(options);
  ASSERT_TRUE(rig.submit(request_with(load(rig, "b", "/b"))).ok());
  ASSERT_TRUE(rig.submit(request_with(load(rig, "a", "/a"))).ok());
  ASSERT_TRUE(rig.submit(request_with(load(rig, "a", "/a2"))).ok());
  ASSERT_TRUE(rig.engine().step());
  const EngineStats stats = rig.engine().stats();
  EXPECT_EQ(stats.max_loras, 1);
  ASSERT_EQ(stats.adapters.size(), 2u);
  EXPECT_EQ(stats.adapters[0].name, "a");
  EXPECT_EQ(stats.adapters[0].num_waiting, 2);
  EXPECT_EQ(stats.adapters[1].name, "b");
  EXPECT_EQ(stats.adapters[1].num_running, 1);
  rig.run();
}

// Requests with an adapter that was unloaded or replaced use it to their end; then it is freed.
TEST(AdapterRequests, KeepTheAdapterThatTheyBeganWith) {
  Rig rig(adapter_rig());
  AdapterRegistry adapters(
      [&](auto& name, auto& path) { return rig.engine().executor().load_adapter(name, path); }, 2);
  ASSERT_TRUE(adapters.load({"a", "/a"}).ok());
  ASSERT_TRUE(adapters.load({"b", "/b"}).ok());
  GenerationRequest r = request_with(adapters.find("a"));
  const std::vector<TokenId> want = expected(rig, r);
  const std::weak_ptr<const Adapter> old = r.adapter;
  const auto id = rig.submit(std::move(r));
  ASSERT_TRUE(id.ok());
  ASSERT_TRUE(rig.engine().step());
  ASSERT_TRUE(adapters.load({"a", "/a2"}, IfLoaded::kReplace).ok());
  EXPECT_FALSE(old.expired());
  rig.run();
  EXPECT_EQ(rig.answer(*id).token_ids, want);
  rig.ask(request_with(nullptr));  // the executor learns of ended requests with the next step
  EXPECT_TRUE(old.expired());
}

// The drafting model has no adapters: it drafts only for requests without one, and no token
// changes.
TEST(AdapterRequests, AModelDoesNotDraftForThem) {
  RigOptions options = adapter_rig();
  auto drafting = std::make_unique<FakeExecutor>(small_rig().fake);
  ASSERT_TRUE(drafting->initialize({.num_blocks = 65}).ok());
  auto drafter = ExecutorDrafter::create(
      std::move(drafting),
      {.num_blocks = 65, .max_step_tokens = 64, .max_seqs = 8, .step_times = {}});
  ASSERT_TRUE(drafter.ok());
  options.engine.drafter = std::shared_ptr<ExecutorDrafter>(std::move(*drafter));
  options.engine.scheduler.num_speculative_tokens = 4;
  options.engine.weigh_drafts = false;
  Rig rig(options);
  const GenerationRequest plain = request_with(nullptr), own = request_with(load(rig, "a", "/a"));
  const auto plain_id = rig.submit(plain), own_id = rig.submit(own);
  ASSERT_TRUE(plain_id.ok() && own_id.ok());
  rig.run();
  EXPECT_EQ(rig.answer(*plain_id).token_ids, expected(rig, plain));
  EXPECT_EQ(rig.answer(*own_id).token_ids, expected(rig, own));
  EXPECT_GT(rig.answer(*plain_id).drafts.num_accepted, 0);
  EXPECT_EQ(rig.answer(*own_id).drafts.num_drafts, 0);
}

}  // namespace
}  // namespace quire
