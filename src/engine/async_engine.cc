// Engine on a thread of its own, behind a mailbox.
#include "engine/async_engine.h"

#include <atomic>
#include <exception>
#include <future>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/rng.h"
#include "engine/engine.h"
#include "engine/mailbox.h"
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

void fail(OutputChannel& channel, int32_t num_choices, const Status& why) {
  for (int32_t i = 0; i < num_choices; ++i) {
    OutputDelta delta;
    delta.choice_index = i;
    delta.finish_reason = FinishReason::kError;
    delta.status = why;
    channel.push(std::move(delta));
  }
  channel.notify();
}

// Told once how a pause went, also when nobody is left to say so.
class PauseReply {
 public:
  explicit PauseReply(AsyncEngine::OnPaused on_paused) : on_paused_(std::move(on_paused)) {}
  PauseReply(const PauseReply&) = delete;
  PauseReply& operator=(const PauseReply&) = delete;
  ~PauseReply() { answer(unavailable("engine: stopped")); }
  void answer(const Status& status) {
    if (const auto on_paused = std::exchange(on_paused_, nullptr)) on_paused(status);
  }

 private:
  AsyncEngine::OnPaused on_paused_;
};

struct PauseRequest {
  PauseMode mode;
  bool clear_cache;
  int32_t sleep_level;                // 0: stay awake
  std::shared_ptr<PauseReply> reply;  // shared with the call that brings it
};

class ThreadedEngine final : public AsyncEngine {
 public:
  explicit ThreadedEngine(std::unique_ptr<Engine> engine)
      : engine_(std::move(engine)),
        mailbox_(std::make_shared<Mailbox>(engine_->options().scheduler.max_num_queued_reqs,
                                           engine_->options().scheduler.max_num_queued_tokens)),
        cost_model_(engine_->options().cost_model),
        thread_([this] { run(); }) {}

  ~ThreadedEngine() override {
    mailbox_->close(false);
    thread_.join();
  }

  Result<std::unique_ptr<OutputStream>> submit(GenerationRequest request,
                                               std::function<void()> on_ready) override;
  int64_t retry_after_s() const override { return mailbox_->queue().retry_after_s; }
  ExecutorInfo model_info() const override { return engine_->model_info(); }
  const Clock& clock() const override { return engine_->clock(); }
  EngineStats stats() const override {
    EngineStats stats = engine_->stats(mailbox_->num_submitted());
    const Mailbox::Refusals refusals = mailbox_->refusals();
    stats.rejected_max_num_queued_reqs = refusals.by_requests;
    stats.rejected_max_num_queued_tokens = refusals.by_tokens;
    stats.sleep_level = sleep_level();
    stats.unread_stream_bytes = unread_bytes_->load(std::memory_order_relaxed);
    return stats;
  }
  bool has_waiting() const override { return mailbox_->queue().num_requests > 0; }
  KvGridSnapshot kv_grid() const override {
    return ask([](Engine& engine) { return engine.kv_grid(); }, {});
  }
  PrefixProbe probe_prefix(const std::vector<TokenId>& token_ids,
                           const CacheKeys& keys) const override {
    return ask([&](Engine& engine) { return engine.probe_prefix(token_ids, keys); }, {});
  }
  Status reset_prefix_cache() override {
    return ask([](Engine& engine) { return engine.reset_prefix_cache(); },
               unavailable("engine: stopped"));
  }
  std::vector<StepRecord> recent_steps() const override {
    return ask([](Engine& engine) { return engine.recent_steps(); }, {});
  }
  std::shared_ptr<const CostModel> cost_model() const override {
    const std::lock_guard lock(cost_model_mutex_);
    return cost_model_;
  }
  void set_cost_model(std::shared_ptr<const CostModel> model) override;
  Result<std::shared_ptr<const Adapter>> load_adapter(const std::string& name,
                                                      const std::string& path) const override {
    return engine_->executor().load_adapter(name, path);
  }
  void pause(PauseMode mode, bool clear_cache, OnPaused on_paused) override;
  Status resume() override;
  bool paused() const override { return paused_.load(); }
  void sleep(int32_t level, PauseMode mode, OnPaused on_asleep) override;
  Status wake_up() override;
  int32_t sleep_level() const override { return sleep_level_.load(); }
  Result<int64_t> abort_requests(std::span<const std::string> external_ids) override;
  bool healthy() const override { return !mailbox_->dead(); }
  void drain(int64_t timeout_us) override;

 private:
  void run();
  void loop(Mail& mail);
  void handle(Mail& mail);
  bool take(Mail& mail, Mailbox::Wait wait);
  void ask_for_pause(PauseRequest request);
  void enter_pause();
  // Runs `function` on the engine thread between steps and waits for what it returns; `otherwise`
  // when that thread has ended.
  template <typename F, typename T = std::invoke_result_t<F, Engine&>>
  T ask(F function, std::type_identity_t<T> otherwise) const;

  const std::unique_ptr<Engine> engine_;
  const std::shared_ptr<Mailbox> mailbox_;  // shared with the streams
  mutable std::mutex cost_model_mutex_;
  std::shared_ptr<const CostModel> cost_model_;  // shared with the engine's steps and its readers
  // Shared with the channels, which may outlive the engine.
  const std::shared_ptr<std::atomic<int64_t>> unread_bytes_ =
      std::make_shared<std::atomic<int64_t>>(0);
  std::atomic<uint64_t> num_groups_{0};
  std::atomic<bool> paused_{false};  // written by the engine thread
  std::atomic<int32_t> sleep_level_{0};
  std::atomic<bool> draining_{false};
  std::atomic<bool> was_paused_{false};  // a pause was asked for, some time
  // Of the engine thread: pauses that begin when what runs has ended.
  std::vector<PauseRequest> pause_requests_;
  std::thread thread_;
};

Result<std::unique_ptr<OutputStream>> ThreadedEngine::submit(GenerationRequest request,
                                                             std::function<void()> on_ready) {
  Status status = engine_->validate(request);
  if (status.ok()) status = engine_->constrain(request);
  std::unique_ptr<OutputStream> stream;
  if (status.ok()) {
    if (request.arrival_us == 0) request.arrival_us = engine_->clock().now_us();
    if (!request.params.seed) request.params.seed = random_seed();
    const GroupId id(++num_groups_);
    auto channel = std::make_shared<OutputChannel>(request.num_choices, engine_->options().stream,
                                                   std::move(on_ready), unread_bytes_);
    status = mailbox_->submit({id, std::move(request), channel});
    if (status.ok()) stream = std::make_unique<ChannelStream>(id, std::move(channel), mailbox_);
  }
  engine_->metrics().on_submitted(status.ok());
  if (!status.ok()) return status;
  return stream;
}

template <typename F, typename T>
T ThreadedEngine::ask(F function, std::type_identity_t<T> otherwise) const {
  auto answer = std::make_shared<std::promise<T>>();  // shared: std::function must be copyable
  std::future<T> future = answer->get_future();
  Engine& engine = *engine_;
  if (!mailbox_->call([answer, &engine, &function] { answer->set_value(function(engine)); })) {
    return otherwise;
  }
  answer.reset();
  try {
    return future.get();
  } catch (const std::future_error&) {  // the thread has ended with the call unanswered
    return otherwise;
  }
}

void ThreadedEngine::handle(Mail& mail) {
  for (Submission& submission : mail.submissions) {
    const std::shared_ptr<OutputChannel> channel = submission.channel;
    const int32_t num_choices = submission.request.num_choices;
    try {
      const Status status = engine_->add(std::move(submission));
      if (!status.ok()) fail(*channel, num_choices, status);
    } catch (const std::exception& e) {  // out of memory: this reader is told, then the thread ends
      fail(*channel, num_choices, internal_error("engine: {}", e.what()));
      throw;
    }
  }
  for (const GroupId id : mail.aborts) engine_->abort(id);
  for (const auto& call : mail.calls) call();
}

bool ThreadedEngine::take(Mail& mail, Mailbox::Wait wait) {
  const bool finishing = !pause_requests_.empty();
  return finishing ? mailbox_->take_all_but_submissions(mail, engine_->queue_state())
                   : mailbox_->take(mail, wait, engine_->queue_state());
}

// Nothing runs on the executor when this returns.
void ThreadedEngine::enter_pause() {
  engine_->settle();
  paused_ = true;
  for (const PauseRequest& request : std::exchange(pause_requests_, {})) {
    const Status status = request.clear_cache ? engine_->reset_prefix_cache() : Status();
    if (status.ok() && request.sleep_level > 0) {
      engine_->executor().discard_kv();
      sleep_level_ = request.sleep_level;
    }
    request.reply->answer(status);
  }
}

void ThreadedEngine::loop(Mail& mail) {
  Mailbox::Wait wait = Mailbox::Wait::kForMail;
  // Whether a whole wait has passed without mail. Only then is there time for work that nobody
  // waits for: a request often follows right after the last one's answer.
  bool is_calm = false;
  while (take(mail, wait)) {
    is_calm = mail.empty() && (is_calm || wait == Mailbox::Wait::kSettling);
    handle(mail);
    if (!pause_requests_.empty() && !engine_->has_unfinished()) enter_pause();
    if (paused_) {
      wait = Mailbox::Wait::kPaused;
      continue;
    }
    const bool progressed = engine_->step();
    if (!engine_->lost().ok()) throw std::runtime_error(engine_->lost().message());
    is_calm = is_calm && !progressed;
    wait = progressed                   ? Mailbox::Wait::kNone
           : engine_->has_unfinished()  ? Mailbox::Wait::kBriefly
           : !is_calm                   ? Mailbox::Wait::kSettling
           : engine_->work_while_idle() ? Mailbox::Wait::kNone
                                        : Mailbox::Wait::kForMail;
  }
}

// Whatever ends the thread, no reader is left waiting.
void ThreadedEngine::run() {
  Mail mail;
  try {
    loop(mail);
    const Status stopped = unavailable("engine: stopped");
    for (Submission& late : mail.submissions) {
      fail(*late.channel, late.request.num_choices, stopped);
    }
    mail.clear();  // calls that nobody will answer
    engine_->abort_all(stopped);
  } catch (const std::exception& e) {
    log_critical("engine: the engine thread has died: {}", e.what());
    mailbox_->close(true);
    const Status died = unavailable("engine: died: {}", e.what());
    Mail rest;
    mailbox_->take(rest, Mailbox::Wait::kNone, {});
    for (Mail* undelivered : {&mail, &rest}) {
      for (Submission& late : undelivered->submissions) {
        if (late.channel) fail(*late.channel, late.request.num_choices, died);
      }
      undelivered->clear();
    }
    engine_->fail_all(died);
    if (engine_->options().on_death) engine_->options().on_death();
  }
  pause_requests_.clear();  // who asked learns that the engine has stopped
}

void ThreadedEngine::pause(PauseMode mode, bool clear_cache, OnPaused on_paused) {
  if (mode == PauseMode::kKeep && clear_cache) {
    on_paused(invalid_argument("pause: expected the cache to stay while requests are kept"));
    return;
  }
  ask_for_pause({mode, clear_cache, 0, std::make_shared<PauseReply>(std::move(on_paused))});
}

// A request that the mailbox refuses or that is dropped with the thread is answered by the end of
// its PauseReply.
void ThreadedEngine::ask_for_pause(PauseRequest request) {
  was_paused_ = true;
  if (draining_) {
    request.reply->answer(unavailable("engine: draining, it is not paused any more"));
    return;
  }
  mailbox_->call([this, request = std::move(request)] {
    pause_requests_.push_back(request);
    if (request.mode == PauseMode::kWait) return;
    if (request.mode == PauseMode::kAbort) engine_->abort_all({});
    enter_pause();
  });
}

void ThreadedEngine::set_cost_model(std::shared_ptr<const CostModel> model) {
  const bool is_set = ask(
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
  return ask(
      [this](Engine&) {
        paused_ = false;
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
  sleep_level_ = 0;
  return resume();
}

Result<int64_t> ThreadedEngine::abort_requests(std::span<const std::string> external_ids) {
  const auto num_aborted = ask(
      [&](Engine& engine) -> std::optional<int64_t> {
        if (!external_ids.empty()) return engine.abort_external(external_ids);
        const int64_t all = engine.num_groups();
        engine.abort_all({});
        return all;
      },
      std::nullopt);
  if (!num_aborted) return unavailable("engine: stopped");
  return *num_aborted;
}

void ThreadedEngine::drain(int64_t timeout_us) {
  mailbox_->start_draining();
  draining_ = true;
  // Asking takes memory, which there may be none of: only where there is something to undo.
  const auto resume = [this](Engine&) {
    pause_requests_.clear();
    paused_ = false;
    return true;
  };
  if (was_paused_ && !ask(resume, false)) return;
  if (mailbox_->wait_idle(timeout_us)) return;
  ask(
      [](Engine& engine) {
        engine.abort_all(unavailable("engine: stopped before the request had finished"));
        return true;
      },
      false);
  mailbox_->wait_idle(std::numeric_limits<int32_t>::max());
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
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine,
                         Engine::create(std::move(options), std::move(executor),
                                        std::move(tokenizer), std::move(clock)));
  const EngineStats stats = engine->stats();
  const std::string states = stats.num_state_blocks > 0
                                 ? fmt::format(" and {} states, each for up to {} tokens",
                                               stats.num_state_blocks, stats.state_block_size)
                                 : std::string();
  log_info("engine: KV cache of {} blocks x {} tokens{} ({:.1f} MiB), context {} tokens",
           stats.num_kv_blocks, stats.block_size, states,
           static_cast<double>(stats.kv_bytes) / (1 << 20), stats.max_model_len);
  return std::unique_ptr<AsyncEngine>(std::make_unique<ThreadedEngine>(std::move(engine)));
}

}  // namespace quire
