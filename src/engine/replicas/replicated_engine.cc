#include "engine/replicas/replicated_engine.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "engine/observe/engine_stats.h"
#include "engine/replicas/replica_router.h"

namespace quire {
namespace {

// The stream of the chosen engine. It counts as that engine's load until its answer is complete or
// the stream is destroyed.
class RoutedStream final : public OutputStream {
 public:
  RoutedStream(std::unique_ptr<OutputStream> stream, std::shared_ptr<ReplicaLoad> load,
               int64_t num_tokens)
      : stream_(std::move(stream)), load_(std::move(load)), num_tokens_(num_tokens) {}
  ~RoutedStream() override { unload(); }

  std::optional<OutputDelta> try_pop() override { return checked(stream_->try_pop()); }
  std::optional<OutputDelta> pop() override { return checked(stream_->pop()); }
  bool done() const override { return stream_->done(); }
  void abort() override { stream_->abort(); }

 private:
  std::optional<OutputDelta> checked(std::optional<OutputDelta> delta) {
    if (stream_->done()) unload();
    return delta;
  }
  void unload() {
    if (std::exchange(is_unloaded_, true)) return;
    load_->add(-1, -num_tokens_);
  }

  const std::unique_ptr<OutputStream> stream_;
  const std::shared_ptr<ReplicaLoad> load_;  // shared with the router, which may be destroyed first
  const int64_t num_tokens_;
  bool is_unloaded_ = false;
};

// Calls back once, when every engine has replied; with the first error, if there was one.
class JoinedReply {
 public:
  JoinedReply(size_t count, AsyncEngine::OnPaused on_paused)
      : num_left_(count), on_paused_(std::move(on_paused)) {}
  void add(const Status& status) {
    std::unique_lock lock(mutex_);
    if (status_.ok()) status_ = status;
    if (--num_left_ > 0) return;
    lock.unlock();
    on_paused_(status_);
  }

 private:
  std::mutex mutex_;
  size_t num_left_;
  Status status_;
  const AsyncEngine::OnPaused on_paused_;
};

// An adapter that every engine has read separately.
struct AdapterOfEach final : Adapter {
  std::vector<std::shared_ptr<const Adapter>> parts;  // by engine
};

// Returns the request in the form for that engine.
GenerationRequest for_engine(GenerationRequest request, ReplicaAdapters adapters, size_t engine) {
  if (adapters == ReplicaAdapters::kOwn && request.adapter != nullptr)
    request.adapter = static_cast<const AdapterOfEach&>(*request.adapter).parts[engine];
  return request;
}

using Engines = std::vector<std::unique_ptr<AsyncEngine>>;

template <typename Is>
bool any_of(const Engines& engines, Is is) {
  return std::any_of(engines.begin(), engines.end(),
                     [&](const auto& engine) { return is(*engine); });
}

// Calls `ask` for every engine; returns the first error.
template <typename Ask>
Status ask_all(const Engines& engines, Ask ask) {
  Status first_error;
  for (const auto& engine : engines) {
    Status status = ask(*engine);
    if (first_error.ok()) first_error = std::move(status);
  }
  return first_error;
}

class ReplicatedEngine final : public AsyncEngine {
 public:
  ReplicatedEngine(Engines engines, const RouterOptions& options, ReplicaAdapters adapters)
      : engines_(std::move(engines)), router_(engines_.size(), options), adapters_(adapters) {}

  Result<std::unique_ptr<OutputStream>> submit(GenerationRequest request,
                                               std::function<void()> on_ready) override;
  int64_t retry_after_s() const override {
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const auto& engine : engines_) least = std::min(least, engine->retry_after_s());
    return least;
  }
  bool has_waiting() const override {
    return any_of(engines_, [](const AsyncEngine& engine) { return engine.has_waiting(); });
  }
  ExecutorInfo model_info() const override { return first().model_info(); }
  const Clock& clock() const override { return first().clock(); }
  EngineStats stats() const override { return sum_of(stats_by_engine()); }
  std::vector<EngineStats> stats_by_engine() const override {
    std::vector<EngineStats> stats;
    for (const auto& engine : engines_) stats.push_back(engine->stats());
    return stats;
  }
  KvGridSnapshot kv_grid() const override;
  PrefixProbe probe_prefix(const std::vector<TokenId>& token_ids,
                           const CacheKeys& keys) const override;
  Status reset_prefix_cache() override;
  void pause(PauseMode mode, bool clear_cache, OnPaused on_paused) override;
  Status resume() override {
    return ask_all(engines_, [](AsyncEngine& engine) { return engine.resume(); });
  }
  bool paused() const override {
    return any_of(engines_, [](const AsyncEngine& engine) { return engine.paused(); });
  }
  void sleep(int32_t level, PauseMode mode, OnPaused on_asleep) override;
  Status wake_up() override {
    return ask_all(engines_, [](AsyncEngine& engine) { return engine.wake_up(); });
  }
  int32_t sleep_level() const override {
    int32_t least = first().sleep_level();
    for (const auto& engine : engines_) least = std::min(least, engine->sleep_level());
    return least;
  }
  Result<int64_t> abort_requests(std::span<const std::string> external_ids) override;
  bool healthy() const override {
    return !any_of(engines_, [](const AsyncEngine& engine) { return !engine.healthy(); });
  }
  std::vector<StepRecord> recent_steps() const override;
  std::shared_ptr<const CostModel> cost_model() const override { return first().cost_model(); }
  void set_cost_model(std::shared_ptr<const CostModel> model) override {
    for (const auto& engine : engines_) engine->set_cost_model(model);
  }
  Result<std::shared_ptr<const Adapter>> load_adapter(const std::string& name,
                                                      const std::string& path) const override;
  void drain(int64_t timeout_us) override;

 private:
  AsyncEngine& first() const { return *engines_.front(); }

  const Engines engines_;
  ReplicaRouter router_;
  const ReplicaAdapters adapters_;
  std::atomic<bool> draining_{false};
};

// If the chosen engine's queue has no room for a request, the next engine is tried; the first
// engine refuses requests that can never run.
Result<std::unique_ptr<OutputStream>> ReplicatedEngine::submit(GenerationRequest request,
                                                               std::function<void()> on_ready) {
  if (draining_) return unavailable("engine: draining");
  const ReplicaRouter::Choice choice = router_.choose(request);
  const std::vector<size_t>& order = choice.order;
  const int64_t num_tokens =
      std::ssize(request.prompt_token_ids) + int64_t{request.params.max_tokens};
  for (size_t i = 0; i < order.size(); ++i) {
    const bool is_last = i + 1 == order.size();
    const std::shared_ptr<ReplicaLoad>& load = router_.load(order[i]);
    load->add(1, num_tokens);
    // The last engine's turn ends the loop.
    Result<std::unique_ptr<OutputStream>> stream = engines_[order[i]]->submit(
        for_engine(is_last ? std::move(request) : request,  // NOLINT(bugprone-use-after-move)
                   adapters_, order[i]),
        is_last ? std::move(on_ready) : on_ready);  // NOLINT(bugprone-use-after-move)
    if (stream.ok()) {
      router_.note(choice, order[i]);
      return std::unique_ptr<OutputStream>(
          std::make_unique<RoutedStream>(std::move(*stream), load, num_tokens));
    }
    load->add(-1, -num_tokens);
    if (is_last || stream.status().code() != StatusCode::kResourceExhausted) return stream;
  }
  return internal_error("no engine");
}

Result<std::shared_ptr<const Adapter>> ReplicatedEngine::load_adapter(
    const std::string& name, const std::string& path) const {
  if (adapters_ == ReplicaAdapters::kShared) return first().load_adapter(name, path);
  auto adapter = std::make_shared<AdapterOfEach>();
  for (const auto& engine : engines_) {
    QUIRE_ASSIGN_OR_RETURN(adapter->parts.emplace_back(), engine->load_adapter(name, path));
    if (adapter->parts.back()->content_key != adapter->parts.front()->content_key)
      return data_loss("{}: the adapter's files change while they are read", path);
  }
  adapter->name = adapter->parts.front()->name;
  adapter->content_key = adapter->parts.front()->content_key;
  return std::shared_ptr<const Adapter>(std::move(adapter));
}

KvGridSnapshot ReplicatedEngine::kv_grid() const {
  KvGridSnapshot whole = first().kv_grid();
  for (size_t i = 1; i < engines_.size(); ++i) {
    KvGridSnapshot grid = engines_[i]->kv_grid();
    const auto num_owners = static_cast<int32_t>(whole.owners.size());
    for (KvGridCell& cell : grid.blocks) {
      if (cell.owner >= 0) cell.owner += num_owners;
    }
    whole.owners.insert(whole.owners.end(), grid.owners.begin(), grid.owners.end());
    whole.blocks.insert(whole.blocks.end(), grid.blocks.begin(), grid.blocks.end());
  }
  return whole;
}

PrefixProbe ReplicatedEngine::probe_prefix(const std::vector<TokenId>& token_ids,
                                           const CacheKeys& keys) const {
  PrefixProbe best;
  for (const auto& engine : engines_) {
    const PrefixProbe probe = engine->probe_prefix(token_ids, keys);
    if (probe.num_cached_tokens > best.num_cached_tokens) best = probe;
  }
  return best;
}

Status ReplicatedEngine::reset_prefix_cache() {
  router_.forget_prefixes();
  return ask_all(engines_, [](AsyncEngine& engine) { return engine.reset_prefix_cache(); });
}

void ReplicatedEngine::pause(PauseMode mode, bool clear_cache, OnPaused on_paused) {
  if (clear_cache) router_.forget_prefixes();
  auto reply = std::make_shared<JoinedReply>(engines_.size(), std::move(on_paused));
  for (const auto& engine : engines_) {
    engine->pause(mode, clear_cache, [reply](const Status& status) { reply->add(status); });
  }
}

void ReplicatedEngine::sleep(int32_t level, PauseMode mode, OnPaused on_asleep) {
  router_.forget_prefixes();
  auto reply = std::make_shared<JoinedReply>(engines_.size(), std::move(on_asleep));
  for (const auto& engine : engines_) {
    engine->sleep(level, mode, [reply](const Status& status) { reply->add(status); });
  }
}

Result<int64_t> ReplicatedEngine::abort_requests(std::span<const std::string> external_ids) {
  int64_t sum = 0;
  QUIRE_RETURN_IF_ERROR(ask_all(engines_, [&](AsyncEngine& engine) {
    const Result<int64_t> num_aborted = engine.abort_requests(external_ids);
    if (num_aborted.ok()) sum += *num_aborted;
    return num_aborted.status();
  }));
  return sum;
}

std::vector<StepRecord> ReplicatedEngine::recent_steps() const {
  constexpr size_t kMostSteps = 512;
  std::vector<StepRecord> steps;
  for (const auto& engine : engines_) {
    const std::vector<StepRecord> more = engine->recent_steps();
    steps.insert(steps.end(), more.begin(), more.end());
  }
  std::stable_sort(steps.begin(), steps.end(), [](const StepRecord& a, const StepRecord& b) {
    return a.begin_us < b.begin_us;
  });
  if (steps.size() > kMostSteps) steps.erase(steps.begin(), steps.end() - kMostSteps);
  return steps;
}

// Drains the engines one after the other: while one finishes the others run on, since no new work
// comes.
void ReplicatedEngine::drain(int64_t timeout_us) {
  draining_ = true;
  for (const auto& engine : engines_) {
    if (engine->paused()) (void)engine->resume();
  }
  const int64_t end_us = clock().now_us() + timeout_us;
  for (const auto& engine : engines_)
    engine->drain(std::max<int64_t>(0, end_us - clock().now_us()));
}

}  // namespace

std::unique_ptr<AsyncEngine> make_replicated_engine(
    std::vector<std::unique_ptr<AsyncEngine>> engines, const RouterOptions& options,
    ReplicaAdapters adapters) {
  QUIRE_CHECK(!engines.empty(), "a replicated engine needs an engine");
  return std::make_unique<ReplicatedEngine>(std::move(engines), options, adapters);
}

}  // namespace quire
