// Engine: the engine as an object for one thread. It takes requests, and each step schedules,
// executes and answers some of them.
//
// AsyncEngine runs an Engine on a thread of its own; tests and the simulator call step()
// themselves. All calls belong to that one thread, except those marked "any thread". requests/ has
// the client requests and what readers get, steps/ has the order of a step. Normative contract:
// engine/README.md.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "core/executor.h"
#include "engine/async_engine.h"
#include "engine/choices/choice_drafts.h"
#include "engine/choices/choice_masks.h"
#include "engine/engine_options.h"
#include "engine/handover/kv_handovers.h"
#include "engine/kv_plan.h"
#include "engine/observe/engine_metrics.h"
#include "engine/request_check.h"
#include "engine/requests/answers.h"
#include "engine/requests/choice_progress.h"
#include "engine/requests/gauges.h"
#include "engine/requests/group_maker.h"
#include "engine/requests/live_groups.h"
#include "engine/requests/submission.h"
#include "engine/steps/kv_news.h"
#include "engine/steps/step_journal.h"
#include "engine/steps/step_loop.h"
#include "engine/structured/structured_output_service.h"
#include "kv/kv_manager.h"
#include "sched/scheduler.h"

namespace quire {

class Engine {
 public:
  // Plans KV memory, initialises and warms up the executor. `tokenizer` may be null.
  static Result<std::unique_ptr<Engine>> create(EngineOptions options,
                                                std::unique_ptr<Executor> executor,
                                                std::shared_ptr<const Tokenizer> tokenizer,
                                                std::shared_ptr<const Clock> clock);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // --- Any thread ---
  // Returns an error if the request can never run here: kInvalidArgument or kTooLarge. Otherwise
  // makes its mask source from its rules for the text (kInvalidArgument, kResourceExhausted:
  // StructuredOutputService::constrain()), and looks for the KV that it takes over
  // (kInvalidArgument, kUnavailable: KvHandovers::check()).
  Status prepare(GenerationRequest& request);
  EngineStats stats(int64_t num_submitted = 0) const;
  ExecutorInfo model_info() const;                           // max_model_len is the engine's
  const EngineOptions& options() const { return options_; }  // resolved
  const Clock& clock() const { return *clock_; }
  EngineMetrics& metrics() { return metrics_; }

  // --- Engine thread ---
  // Queues a prepared request; its choices are taken whole or not at all. After an error nothing
  // has been pushed to the channel.
  Status add(Submission submission);
  // Ends the unfinished choices of a request with kAbort; `why` may be ok (the client left).
  // Unknown ids are ignored.
  void abort(GroupId id, const Status& why = {});
  // Ends the requests with one of these external ids with kAbort; returns their number.
  int64_t abort_external(std::span<const std::string> external_ids);
  // Ends all requests: with kAbort, or with kError if the engine cannot go on. Returns the number
  // of client requests that it ended.
  int64_t end_all(FinishReason reason, const Status& why);
  // Waits for the steps under way and takes their results.
  void settle() { loop_.settle(); }
  // Runs one step. Returns false if there was nothing to run.
  bool step() { return loop_.step(); }
  bool has_unfinished() const { return !groups_.empty(); }
  // Returns an error if the device is lost: then all requests have ended with kError, and nothing
  // will run any more.
  const Status& lost() const { return loop_.lost(); }
  // Sets the model that gives later steps their bounds and the scheduler its predictions.
  void set_cost_model(std::shared_ptr<const CostModel> model);
  QueueState queue_state() const;
  KvGridSnapshot kv_grid() const;
  PrefixProbe probe_prefix(std::span<const TokenId> token_ids, const CacheKeys& keys) const;
  Status reset_prefix_cache();
  // Returns the last steps, oldest first; at most 512.
  std::vector<StepRecord> recent_steps() const { return journal_.recent(); }
  Executor& executor() { return *executor_; }
  // Checks the invariants of scheduler and KV manager.
  Status check_integrity() const { return scheduler_.check_integrity(); }

 private:
  Engine(EngineOptions options, std::unique_ptr<Executor> executor,
         std::unique_ptr<KvFiles> kv_files, std::shared_ptr<const Tokenizer> tokenizer,
         std::shared_ptr<const Clock> clock, const KvSizing& sizing);

  const EngineOptions options_;
  const std::unique_ptr<Executor> executor_;
  const std::unique_ptr<KvFiles> kv_files_;  // uses the executor's memory; null: none
  const ExecutorInfo model_;
  const std::shared_ptr<const Clock> clock_;  // shared with the frontend
  const int64_t start_us_;
  const RequestLimits limits_;
  StructuredOutputService structured_outputs_;  // outlives the choices, whose masks it makes
  EngineMetrics metrics_;
  KvManager kv_;
  KvHandovers handovers_;
  ChoiceMasks masks_;
  ChoiceDrafts drafts_;
  Scheduler scheduler_;
  Gauges gauges_;
  GroupMaker maker_;
  LiveGroups groups_;
  Answers answers_;
  ChoiceProgress progress_;
  KvNews kv_news_;
  StepJournal journal_;
  StepLoop loop_;
};

}  // namespace quire
