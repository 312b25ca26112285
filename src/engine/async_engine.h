// AsyncEngine: the engine's interface for frontends. Any thread may submit a request, and reads its
// output from a bounded stream.
//
//   auto stream = engine.submit(std::move(request), [&] { asio::post(strand, read_more); });
//   if (!stream.ok()) …                         // refused at once: 400, 413, 429 or 503
//   while (auto delta = (*stream)->try_pop()) … // text, tokens, log-probabilities
//                                               // a choice's last delta has a finish_reason
//
// One engine thread owns Scheduler and KvManager and runs: take submissions, schedule, execute,
// update, detokenize, push. Frontends never touch it. A stream that its reader lets overflow, or
// that is destroyed early, aborts its request; the engine never waits for a reader.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "core/executor.h"
#include "engine/output/generation.h"

namespace quire {

class Tokenizer;

struct EngineStats;     // engine/observe/engine_stats.h: counters, gauges and histograms behind
                        // /metrics and /quire/stats
class CostModel;        // roofline/model/cost_model.h
struct StepRecord;      // engine/observe/engine_stats.h: shape and times of one step
struct KvGridSnapshot;  // engine/observe/engine_stats.h: state, ref_cnt and owner of every block
struct EngineOptions;   // engine/engine_options.h
// The part of a prompt that the prefix cache has at present.
struct PrefixProbe {
  int32_t num_cached_tokens = 0;
  int32_t num_cached_blocks = 0;
};

// What happens to the requests in the engine when it is paused.
enum class PauseMode : uint8_t {
  kAbort,  // they end with FinishReason::kAbort
  kWait,   // they run to their end first; requests that come meanwhile wait
  kKeep,   // they stop where they are, keep their KV and go on after resume()
};

class AsyncEngine {
 public:
  virtual ~AsyncEngine() = default;

  // Submits a request. The engine thread calls `on_ready` after it has pushed deltas; `on_ready`
  // must be cheap and must not call back into the engine. It may still be called once while or just
  // after the stream is destroyed, so it should own what it uses. Errors: kInvalidArgument /
  // kTooLarge if the request can never run, kResourceExhausted if the queue is full, kUnavailable
  // if the engine is draining or dead.
  virtual Result<std::unique_ptr<OutputStream>> submit(GenerationRequest request,
                                                       std::function<void()> on_ready) = 0;

  // Returns the seconds after which a refused client may try again: queued tokens / recent prefill
  // rate, at least 1.
  virtual int64_t retry_after_s() const = 0;

  // Returns whether accepted requests wait that have never run. Cheap; any thread may call it.
  virtual bool has_waiting() const { return false; }

  virtual ExecutorInfo model_info() const = 0;
  virtual const Clock& clock() const = 0;
  virtual EngineStats stats() const = 0;  // a copy; any thread
  // Returns the statistics of each engine, if this is several (engine/replicas); stats() is their
  // sum.
  virtual std::vector<EngineStats> stats_by_engine() const;
  virtual KvGridSnapshot kv_grid() const = 0;  // a copy, made by the engine thread between steps
  virtual PrefixProbe probe_prefix(const std::vector<TokenId>& token_ids,
                                   const CacheKeys& keys) const = 0;
  virtual Status reset_prefix_cache() = 0;  // fails while requests run
  // Called once with the result of a pause, by the engine thread when nothing runs, or by the
  // thread that refuses the pause. It must be cheap and must not call back into the engine.
  using OnPaused = std::function<void(const Status& status)>;
  // Stops scheduling until resume(); returns before the engine has stopped. Requests may still be
  // submitted: they queue up, within the queue's limits, and their deadlines still hold.
  // `clear_cache` drops the prefix cache; kKeep does not allow it. drain() resumes a paused engine.
  virtual void pause(PauseMode mode, bool clear_cache, OnPaused on_paused) = 0;
  virtual Status resume() = 0;
  virtual bool paused() const = 0;
  // Does what pause(mode, true) does; then the executor gives the memory of its KV blocks back to
  // the system where it can (Executor::discard_kv()). Until wake_up(), which also resumes,
  // sleep_level() is `level`, 1 or 2. The weights stay loaded at both levels. kInvalidArgument: the
  // mode is kKeep, or the level is neither.
  virtual void sleep(int32_t level, PauseMode mode, OnPaused on_asleep) = 0;
  virtual Status wake_up() = 0;
  virtual int32_t sleep_level() const = 0;  // 0: awake
  // Ends the requests with one of these external ids (with no ids: all requests) with
  // FinishReason::kAbort. Returns their number.
  virtual Result<int64_t> abort_requests(std::span<const std::string> external_ids) = 0;
  // Returns false once the executor is lost or the engine thread has died.
  virtual bool healthy() const = 0;
  // Returns the shape and times of the last steps, oldest first; at most 512. The engine thread
  // copies them between steps.
  virtual std::vector<StepRecord> recent_steps() const;
  // Returns the model that computes the bounds of the next steps, or null. Any thread may call it.
  virtual std::shared_ptr<const CostModel> cost_model() const;
  // Replaces the cost model between two steps, and with it the prediction by which the scheduler
  // bounds steps by time. `model` is not null. Any thread may call it; it returns when the model is
  // replaced or the engine has stopped.
  virtual void set_cost_model(std::shared_ptr<const CostModel> model);
  // Calls Executor::load_adapter() of this engine's model while requests run. Any thread may call
  // it.
  virtual Result<std::shared_ptr<const Adapter>> load_adapter(const std::string& name,
                                                              const std::string& path) const;

  // Refuses new work. Returns when all accepted work has finished; after timeout_us the rest is
  // aborted.
  virtual void drain(int64_t timeout_us) = 0;
};

// Plans the KV memory, initialises and warms up the executor, and starts the engine thread.
// `tokenizer` may be null: then deltas have no text, and stop strings are refused. The returned
// engine's destructor aborts what still runs and joins the thread. Errors: options out of bounds,
// or KV memory too small for one request of max_model_len tokens.
Result<std::unique_ptr<AsyncEngine>> make_async_engine(EngineOptions options,
                                                       std::unique_ptr<Executor> executor,
                                                       std::shared_ptr<const Tokenizer> tokenizer,
                                                       std::shared_ptr<const Clock> clock);

}  // namespace quire
