// Engine on a thread of its own, behind a mailbox.
#include "engine/async_engine.h"

#include <atomic>
#include <exception>
#include <future>
#include <limits>
#include <stdexcept>
#include <thread>
#include <utility>

#include "base/log.h"
#include "engine/engine.h"
#include "engine/engine_stats.h"
#include "engine/mailbox.h"
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

class ThreadedEngine final : public AsyncEngine {
 public:
  explicit ThreadedEngine(std::unique_ptr<Engine> engine)
      : engine_(std::move(engine)),
        mailbox_(std::make_shared<Mailbox>(engine_->options().scheduler.max_num_queued_reqs,
                                           engine_->options().scheduler.max_num_queued_tokens)),
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
  EngineStats stats() const override { return engine_->stats(mailbox_->num_submitted()); }
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
  const CostModel* cost_model() const override { return engine_->options().cost_model.get(); }
  bool healthy() const override { return !mailbox_->dead(); }
  void drain(int64_t timeout_us) override;

 private:
  void run();
  void loop(Mail& mail);
  void handle(Mail& mail);
  // Runs `function` on the engine thread between steps and waits for what it returns; `otherwise`
  // when that thread has ended.
  template <typename F, typename T = std::invoke_result_t<F, Engine&>>
  T ask(F function, std::type_identity_t<T> otherwise) const;

  const std::unique_ptr<Engine> engine_;
  const std::shared_ptr<Mailbox> mailbox_;  // shared with the streams
  std::atomic<uint64_t> num_groups_{0};
  std::thread thread_;
};

Result<std::unique_ptr<OutputStream>> ThreadedEngine::submit(GenerationRequest request,
                                                             std::function<void()> on_ready) {
  Status status = engine_->validate(request);
  std::unique_ptr<OutputStream> stream;
  if (status.ok()) {
    if (request.arrival_us == 0) request.arrival_us = engine_->clock().now_us();
    const GroupId id(++num_groups_);
    auto channel = std::make_shared<OutputChannel>(request.num_choices, engine_->options().stream,
                                                   std::move(on_ready));
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

void ThreadedEngine::loop(Mail& mail) {
  Mailbox::Wait wait = Mailbox::Wait::kForMail;
  while (mailbox_->take(mail, wait, engine_->queue_state())) {
    handle(mail);
    const bool progressed = engine_->step();
    if (!engine_->lost().ok()) throw std::runtime_error(engine_->lost().message());
    wait = progressed                   ? Mailbox::Wait::kNone
           : engine_->has_unfinished()  ? Mailbox::Wait::kBriefly
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
}

void ThreadedEngine::drain(int64_t timeout_us) {
  mailbox_->start_draining();
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

std::vector<StepRecord> AsyncEngine::recent_steps() const { return {}; }
const CostModel* AsyncEngine::cost_model() const { return nullptr; }

Result<std::unique_ptr<AsyncEngine>> make_async_engine(EngineOptions options,
                                                       std::unique_ptr<Executor> executor,
                                                       std::shared_ptr<const Tokenizer> tokenizer,
                                                       std::shared_ptr<const Clock> clock) {
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine,
                         Engine::create(std::move(options), std::move(executor),
                                        std::move(tokenizer), std::move(clock)));
  const EngineStats stats = engine->stats();
  log_info("engine: KV cache of {} blocks x {} tokens ({:.1f} MiB), context {} tokens",
           stats.num_kv_blocks, stats.block_size, static_cast<double>(stats.kv_bytes) / (1 << 20),
           stats.max_model_len);
  return std::unique_ptr<AsyncEngine>(std::make_unique<ThreadedEngine>(std::move(engine)));
}

}  // namespace quire
