// For tests: a whole engine in one thread on a FakeExecutor and a clock that the test sets, and a
// small tokenizer whose token b is byte b.
#pragma once

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/testing/fake_executor.h"
#include "tokenizer/json/tokenizer_json.h"

namespace quire::test {

// Returns a tokenizer whose token b < 256 is the byte b; from 256 on come `pieces` (ASCII text
// each), and the last one is the special token <eos>.
inline std::shared_ptr<const Tokenizer> byte_tokenizer(
    const std::vector<std::string>& pieces = {}) {
  // GPT-2's printable characters for bytes: printable Latin-1 bytes stand for themselves, the
  // others for characters from U+0100 on.
  const auto stand_in = [next = 0x100](int byte) mutable {
    const bool printable =
        (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    return printable ? byte : next++;
  };
  std::string vocab;
  auto map = stand_in;
  for (int byte = 0; byte < 256; ++byte) vocab += fmt::format("\"\\u{:04x}\":{},", map(byte), byte);
  int id = 256;
  for (const std::string& piece : pieces) vocab += fmt::format("\"{}\":{},", piece, id++);
  const std::string json = fmt::format(
      R"({{"added_tokens":[{{"id":{0},"content":"<eos>","single_word":false,"lstrip":false,)"
      R"("rstrip":false,"normalized":false,"special":true}}],"normalizer":null,)"
      R"("pre_tokenizer":{{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}},)"
      R"("post_processor":null,"decoder":{{"type":"ByteLevel","add_prefix_space":true,)"
      R"("trim_offsets":true,"use_regex":true}},"model":{{"type":"BPE","dropout":null,"unk_token":null,)"
      R"("continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,)"
      R"("byte_fallback":false,"vocab":{{{1}"<eos>":{0}}},"merges":[]}}}})",
      id, vocab);
  auto tokenizer = tokenizer_from_json(json);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return std::move(tokenizer).value();
}

struct Answer {
  std::string text;
  std::vector<TokenId> token_ids;
  std::vector<TokenLogprobs> logprobs;
  std::vector<TokenLogprobs> prompt_logprobs;
  int32_t num_cached_tokens = 0;
  PooledOutput pooled;
  DraftCounts drafts;
  std::shared_ptr<const KvHandover> handover;  // shared with the delta that had it
  int num_deltas = 0;
  std::optional<FinishReason> finish_reason;
  std::variant<std::monostate, std::string, TokenId> stop_reason;
  Status status;

  void add(OutputDelta delta) {
    EXPECT_FALSE(finish_reason.has_value()) << "a delta after the last one";
    text += delta.text;
    token_ids.insert(token_ids.end(), delta.token_ids.begin(), delta.token_ids.end());
    logprobs.insert(logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
    if (num_deltas++ == 0) {
      prompt_logprobs = delta.prompt_logprobs;
      num_cached_tokens = delta.num_cached_tokens;
    } else {
      EXPECT_TRUE(delta.prompt_logprobs.empty());
    }
    drafts = delta.drafts;
    handover = std::move(delta.handover);
    pooled = std::move(delta.pooled);
    finish_reason = delta.finish_reason;
    stop_reason = delta.stop_reason;
    status = delta.status;
  }
};

struct RigOptions {
  EngineOptions engine;
  FakeExecutorOptions fake;
  std::shared_ptr<const Tokenizer> tokenizer;
};

// Small defaults, with which blocks and budgets are scarce.
inline RigOptions small_rig() {
  RigOptions options;
  options.engine.num_blocks = 65;
  options.engine.scheduler.max_model_len = 128;
  options.engine.scheduler.max_num_seqs = 8;
  options.engine.scheduler.max_num_batched_tokens = 64;
  options.engine.log_interval_us = 0;
  options.fake.kv_spec.block_size = 4;
  options.fake.step_us = 1000;
  return options;
}

class Rig {
 public:
  struct Client {
    std::shared_ptr<OutputChannel> channel;
    std::vector<Answer> answers;  // by choice
    void read() {
      while (auto delta = channel->try_pop()) {
        answers[static_cast<size_t>(delta->choice_index)].add(std::move(*delta));
      }
    }
  };

  explicit Rig(RigOptions options = small_rig())
      : clock_(std::make_shared<ManualClock>(1'000'000)) {
    if (!options.fake.wait) {
      options.fake.wait = [clock = clock_](int64_t us) { clock->advance_us(us); };
    }
    auto& scheduler = options.engine.scheduler;
    scheduler.max_num_seqs = std::min(scheduler.max_num_seqs, scheduler.max_num_batched_tokens);
    auto fake = std::make_unique<FakeExecutor>(options.fake);
    fake_ = fake.get();
    stream_ = options.engine.stream;
    auto engine = Engine::create(options.engine, std::move(fake), options.tokenizer, clock_);
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    engine_ = std::move(engine).value();
  }

  // Checks that no plan broke a rule and that all blocks are freed, whatever the test did.
  ~Rig() {
    engine_->end_all(FinishReason::kAbort, {});
    while (engine_->step()) {  // results of steps under way
    }
    EXPECT_EQ(fake_->violations(), std::vector<std::string>{});
    EXPECT_EQ(engine_->stats().kv_blocks_in_use, 0);
    const Status integrity = engine_->check_integrity();
    EXPECT_TRUE(integrity.ok()) << integrity.message();
  }

  Result<GroupId> submit(GenerationRequest request) {
    QUIRE_RETURN_IF_ERROR(engine_->prepare(request));
    const GroupId id(++num_clients_);
    Client client;
    client.channel = std::make_shared<OutputChannel>(request.num_choices, stream_, nullptr);
    client.answers.resize(static_cast<size_t>(request.num_choices));
    if (request.arrival_us == 0) request.arrival_us = clock_->now_us();
    auto channel = client.channel;
    QUIRE_RETURN_IF_ERROR(engine_->add({id, std::move(request), std::move(channel)}));
    clients_[id.value] = std::move(client);
    return id;
  }

  // Runs steps until nothing is left, and reads the output.
  void run() {
    for (int i = 0; engine_->has_unfinished(); ++i) {
      ASSERT_LT(i, 100000) << "the engine does not finish";
      engine_->step();
      read();
    }
  }
  void read() {
    for (auto& [id, client] : clients_) client.read();
  }

  Answer& answer(GroupId id, size_t choice = 0) { return clients_.at(id.value).answers[choice]; }
  Client& client(GroupId id) { return clients_.at(id.value); }
  // Runs a request to its end.
  Answer ask(GenerationRequest request) {
    const auto id = submit(std::move(request));
    EXPECT_TRUE(id.ok()) << id.status().message();
    run();
    return answer(*id);
  }

  Engine& engine() { return *engine_; }
  FakeExecutor& fake() { return *fake_; }
  ManualClock& clock() { return *clock_; }

 private:
  std::shared_ptr<ManualClock> clock_;
  FakeExecutor* fake_ = nullptr;
  StreamLimits stream_;
  std::unique_ptr<Engine> engine_;
  uint64_t num_clients_ = 0;
  std::map<uint64_t, Client> clients_;
};

// Waits for the result of a pause or a sleep: answer_of([&](auto done) { engine.pause(…, done); }).
template <typename Ask>
Status answer_of(Ask ask) {
  auto answer = std::make_shared<std::promise<Status>>();  // std::function must be copyable
  ask([answer](const Status& status) { answer->set_value(status); });
  return answer->get_future().get();
}
inline Status pause(AsyncEngine& engine, PauseMode mode, bool clear_cache) {
  return answer_of([&](auto done) { engine.pause(mode, clear_cache, done); });
}
inline Status sleep(AsyncEngine& engine, int32_t level, PauseMode mode) {
  return answer_of([&](auto done) { engine.sleep(level, mode, done); });
}

inline std::vector<TokenId> tokens(int32_t n, int32_t first = 1) {
  std::vector<TokenId> ids;
  for (int32_t i = 0; i < n; ++i) ids.push_back(first + i * 7 % 200);
  return ids;
}

inline GenerationRequest request(std::vector<TokenId> prompt, int32_t max_tokens) {
  GenerationRequest r;
  r.external_id = "test";
  r.prompt_token_ids = std::move(prompt);
  r.params.max_tokens = max_tokens;
  r.params.ignore_eos = true;
  r.params.seed = 1;
  return r;
}

}  // namespace quire::test
