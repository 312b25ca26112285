#include "engine/async_engine.h"

#include <atomic>
#include <limits>
#include <mutex>
#include <utility>

#include "base/log.h"
#include "base/rng.h"
#include "engine/engine_thread.h"
#include "engine/observe/engine_stats.h"
#include "tokenizer/tokenizer.h"

namespace quire {
namespace {

class ChannelStream final : public OutputStream {
 public:
  ChannelStream(GroupId id, std::shared_ptr<OutputChannel> channel,
                std::shared_ptr<Mailbox> mailbox)
      : id_(id), channel_(std::move(channel)), mailbox_(std::move(mailbox)) {}
  ~ChannelStream() override {
    if (!channel_->all_pushed()) abort();
  }

  std::optional<OutputDelta> try_pop() override { return channel_->try_pop(); }
  std::optional<OutputDelta> pop() override { return channel_->pop(); }
  bool done() const override { return channel_->done(); }
  void abort() override {
    if (!std::exchange(aborted_, true)) mailbox_->abort(id_);
  }

 private:
  const GroupId id_;
  const std::shared_ptr<OutputChannel> channel_;  // the engine holds the other end
  const std::shared_ptr<Mailbox> mailbox_;        // outlives the engine while streams remain
  bool aborted_ = false;
};

class ThreadedEngine final : public AsyncEngine {
 public:
  explicit ThreadedEngine(std::unique_ptr<Engine> engine)
      : cost_model_(engine->options().cost_model), thread_(std::move(engine)) {}

  Result<std::unique_ptr<OutputStream>> submit(GenerationRequest request,
                                               std::function<void()> on_ready) override;
  int64_t retry_after_s() const override { return thread_.mailbox()->queue().retry_after_s; }
  ExecutorInfo model_info() const override { return engine().model_info(); }
  const Clock& clock() const override { return engine().clock(); }
  EngineStats stats() const override {
    EngineStats stats = engine().stats(thread_.mailbox()->num_submitted());
    const Mailbox::Refusals refusals = thread_.mailbox()->refusals();
    stats.rejected_max_num_queued_reqs = refusals.by_requests;
    stats.rejected_max_num_queued_tokens = refusals.by_tokens;
    stats.sleep_level = sleep_level();
    stats.unread_stream_bytes = unread_bytes_->load(std::memory_order_relaxed);
    return stats;
  }
  bool has_waiting() const override { return thread_.mailbox()->queue().num_requests > 0; }
  KvGridSnapshot kv_grid() const override {
    return thread_.ask([](Engine& engine) { return engine.kv_grid(); }, {});
  }
  PrefixProbe probe_prefix(const std::vector<TokenId>& token_ids,
                           const CacheKeys& keys) const override {
    return thread_.ask([&](Engine& engine) { return engine.probe_prefix(token_ids, keys); }, {});
  }
  Status reset_prefix_cache() override {
    return thread_.ask([](Engine& engine) { return engine.reset_prefix_cache(); },
                       unavailable("engine: stopped"));
  }
  std::vector<StepRecord> recent_steps() const override {
    return thread_.ask([](Engine& engine) { return engine.recent_steps(); }, {});
  }
  std::shared_ptr<const CostModel> cost_model() const override {
    const std::lock_guard lock(cost_model_mutex_);
    return cost_model_;
  }
  void set_cost_model(std::shared_ptr<const CostModel> model) override;
  Result<std::shared_ptr<const Adapter>> load_adapter(const std::string& name,
                                                      const std::string& path) const override {
    return engine().executor().load_adapter(name, path);
  }
  void pause(PauseMode mode, bool clear_cache, OnPaused on_paused) override;
  Status resume() override;
  bool paused() const override { return thread_.pauses().paused(); }
  void sleep(int32_t level, PauseMode mode, OnPaused on_asleep) override;
  Status wake_up() override;
  int32_t sleep_level() const override { return thread_.pauses().sleep_level(); }
  Result<int64_t> abort_requests(std::span<const std::string> external_ids) override;
  bool healthy() const override {
    return !thread_.mailbox()->dead() && thread_.engine().executor().health().ok();
  }
  void drain(int64_t timeout_us) override;

 private:
  void ask_for_pause(PauseRequest request);
  Engine& engine() const { return thread_.engine(); }

  mutable std::mutex cost_model_mutex_;
  std::shared_ptr<const CostModel> cost_model_;  // shared with the engine's steps and with readers
  // Shared with the channels, which may outlive the engine.
  const std::shared_ptr<std::atomic<int64_t>> unread_bytes_ =
      std::make_shared<std::atomic<int64_t>>(0);
  std::atomic<uint64_t> num_groups_{0};
  std::atomic<bool> draining_{false};
  std::atomic<bool> was_paused_{false};  // a pause has been requested at some time
  EngineThread thread_;
};

Result<std::unique_ptr<OutputStream>> ThreadedEngine::submit(GenerationRequest request,
                                                             std::function<void()> on_ready) {
  Status status = engine().prepare(request);
  std::unique_ptr<OutputStream> stream;
  if (status.ok()) {
    if (request.arrival_us == 0) request.arrival_us = engine().clock().now_us();
    if (!request.params.seed) request.params.seed = random_seed();
    const GroupId id(++num_groups_);
    auto channel = std::make_shared<OutputChannel>(request.num_choices, engine().options().stream,
                                                   std::move(on_ready), unread_bytes_);
    status = thread_.mailbox()->submit({id, std::move(request), channel});
    if (status.ok())
      stream = std::make_unique<ChannelStream>(id, std::move(channel), thread_.mailbox());
  }
  engine().metrics().on_submitted(status.ok());
  if (!status.ok()) return status;
  return stream;
}

void ThreadedEngine::pause(PauseMode mode, bool clear_cache, OnPaused on_paused) {
  if (mode == PauseMode::kKeep && clear_cache) {
    on_paused(invalid_argument("pause: expected the cache to stay while requests are kept"));
    return;
  }
  ask_for_pause({mode, clear_cache, 0, std::make_shared<PauseReply>(std::move(on_paused))});
}

// If the mailbox refuses a request, or the request is dropped when the thread ends, the destructor
// of its PauseReply answers.
void ThreadedEngine::ask_for_pause(PauseRequest request) {
  was_paused_ = true;
  if (draining_) {
    request.reply->answer(unavailable("engine: draining, it is not paused any more"));
    return;
  }
  thread_.mailbox()->call(
      [this, request = std::move(request)] { thread_.pauses().begin(request); });
}

void ThreadedEngine::set_cost_model(std::shared_ptr<const CostModel> model) {
  const bool is_set = thread_.ask(
      [&](Engine& engine) {
        engine.set_cost_model(model);
        return true;
      },
      false);
  if (!is_set) return;
  const std::lock_guard lock(cost_model_mutex_);
  cost_model_ = std::move(model);
}

Status ThreadedEngine::resume() {
  return thread_.ask(
      [this](Engine&) {
        thread_.pauses().resume();
        return Status();
      },
      unavailable("engine: stopped"));
}

void ThreadedEngine::sleep(int32_t level, PauseMode mode, OnPaused on_asleep) {
  if (level != 1 && level != 2) {
    on_asleep(invalid_argument("level: expected 1 or 2, got {}", level));
  } else if (mode == PauseMode::kKeep) {
    on_asleep(
        invalid_argument("mode: expected abort or wait: a sleeping engine keeps no requests"));
  } else {
    ask_for_pause({mode, true, level, std::make_shared<PauseReply>(std::move(on_asleep))});
  }
}

Status ThreadedEngine::wake_up() {
  thread_.pauses().wake_up();
  return resume();
}

Result<int64_t> ThreadedEngine::abort_requests(std::span<const std::string> external_ids) {
  const auto num_aborted = thread_.ask(
      [&](Engine& engine) -> std::optional<int64_t> {
        if (!external_ids.empty()) return engine.abort_external(external_ids);
        return engine.end_all(FinishReason::kAbort, {});
      },
      std::nullopt);
  if (!num_aborted) return unavailable("engine: stopped");
  return *num_aborted;
}

void ThreadedEngine::drain(int64_t timeout_us) {
  thread_.mailbox()->start_draining();
  draining_ = true;
  // A call needs memory, of which there may be none, so it is made only if there is a pause to
  // undo.
  const auto resume = [this](Engine&) {
    thread_.pauses().cancel_waiting();
    thread_.pauses().resume();
    return true;
  };
  if (was_paused_ && !thread_.ask(resume, false)) return;
  if (thread_.mailbox()->wait_idle(timeout_us)) return;
  thread_.ask(
      [](Engine& engine) {
        engine.end_all(FinishReason::kAbort,
                       unavailable("engine: stopped before the request had finished"));
        return true;
      },
      false);
  thread_.mailbox()->wait_idle(std::numeric_limits<int32_t>::max());
}

}  // namespace

std::vector<EngineStats> AsyncEngine::stats_by_engine() const { return {stats()}; }
std::vector<StepRecord> AsyncEngine::recent_steps() const { return {}; }
std::shared_ptr<const CostModel> AsyncEngine::cost_model() const { return nullptr; }
void AsyncEngine::set_cost_model(std::shared_ptr<const CostModel>) {}
Result<std::shared_ptr<const Adapter>> AsyncEngine::load_adapter(const std::string&,
                                                                 const std::string&) const {
  return unimplemented("this engine takes no adapters");
}

Result<std::unique_ptr<AsyncEngine>> make_async_engine(EngineOptions options,
                                                       std::unique_ptr<Executor> executor,
                                                       std::shared_ptr<const Tokenizer> tokenizer,
                                                       std::shared_ptr<const Clock> clock) {
  const std::string drafts =
      options.drafter == nullptr
          ? std::string()
          : fmt::format(", up to {} drafts a step", options.scheduler.num_speculative_tokens);
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine,
                         Engine::create(std::move(options), std::move(executor),
                                        std::move(tokenizer), std::move(clock)));
  const EngineStats stats = engine->stats();
  const std::string states = stats.num_state_blocks > 0
                                 ? fmt::format(" and {} states, each for up to {} tokens",
                                               stats.num_state_blocks, stats.state_block_size)
                                 : std::string();
  log_info("engine: KV cache of {} blocks x {} tokens{} ({:.1f} MiB), context {} tokens{}",
           stats.num_kv_blocks, stats.block_size, states,
           static_cast<double>(stats.kv_bytes) / (1 << 20), stats.max_model_len, drafts);
  return std::unique_ptr<AsyncEngine>(std::make_unique<ThreadedEngine>(std::move(engine)));
}

}  // namespace quire
