// The step loop, as an object for one thread: take requests, schedule, execute, apply stop rules,
// push text.
//
// AsyncEngine runs one on its own thread; tests and the simulator call step() themselves. All but
// the calls marked "any thread" belong to the one thread. Normative contract: engine/README.md.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "core/executor.h"
#include "engine/async_engine.h"
#include "engine/choices/choice_drafts.h"
#include "engine/choices/choice_masks.h"
#include "engine/choices/group.h"
#include "engine/engine_options.h"
#include "engine/handover/kv_handovers.h"
#include "engine/kv_plan.h"
#include "engine/observe/engine_log.h"
#include "engine/observe/engine_metrics.h"
#include "engine/observe/step_cost.h"
#include "engine/output/output_channel.h"
#include "engine/request_check.h"
#include "engine/structured/structured_output_service.h"
#include "kv/kv_manager.h"
#include "sched/scheduler.h"

namespace quire {

struct Submission {
  GroupId id;
  GenerationRequest request;  // passed validate()
  std::shared_ptr<OutputChannel> channel;
};

// How full the queue is, for refusing at the door.
struct QueueState {
  int32_t num_requests = 0;  // never yet admitted
  int64_t num_tokens = 0;
  int64_t retry_after_s = 1;
};

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
  // Whether the request can ever run here: kInvalidArgument or kTooLarge.
  Status validate(const GenerationRequest& request) const;
  // Turns what a valid request says of its text into the source of its masks.
  // kInvalidArgument, kResourceExhausted: StructuredOutputService::constrain(). Looks for the KV that
  // it is to take over, too: kInvalidArgument, kUnavailable: KvHandovers::check().
  Status constrain(GenerationRequest& request) {
    QUIRE_RETURN_IF_ERROR(structured_outputs_.constrain(request));
    return handovers_.check(request);
  }
  EngineStats stats(int64_t num_submitted = 0) const;
  ExecutorInfo model_info() const;                           // max_model_len is the engine's
  const EngineOptions& options() const { return options_; }  // resolved
  const Clock& clock() const { return *clock_; }
  EngineMetrics& metrics() { return metrics_; }

  // --- Engine thread ---
  // Queues a request; its choices are taken whole or not at all. On an error nothing was pushed to
  // the channel.
  Status add(Submission submission);
  // Ends what is unfinished of a request with kAbort; `why` may be ok (the client left). Unknown
  // ids are ignored.
  void abort(GroupId id, const Status& why = {});
  void abort_all(const Status& why);
  // Ends the requests with one of these external ids with kAbort; how many they were.
  int64_t abort_external(std::span<const std::string> external_ids);
  // Waits for the steps that are under way and takes their results.
  void settle();
  // Ends everything with kError: the engine cannot go on.
  void fail_all(const Status& why);
  // One step. False when nothing could be run.
  bool step();
  bool has_unfinished() const { return !groups_.empty(); }
  // A short piece of what the executor has put off; false: nothing is left. For when step() had
  // nothing to run.
  bool work_while_idle() { return executor_->work_while_idle(); }
  // Not ok: the device is lost. Everything has ended with kError and nothing will run any more.
  const Status& lost() const { return lost_; }
  int64_t num_groups() const { return static_cast<int64_t>(groups_.size()); }
  // Gives the steps from here on their bounds and the scheduler its prediction of them.
  void set_cost_model(std::shared_ptr<const CostModel> model);
  QueueState queue_state() const;
  KvGridSnapshot kv_grid() const;
  PrefixProbe probe_prefix(std::span<const TokenId> token_ids, const CacheKeys& keys) const;
  Status reset_prefix_cache();
  // The last steps, oldest first; at most 512.
  std::vector<StepRecord> recent_steps() const;
  Executor& executor() { return *executor_; }
  // Scheduler and KV invariants.
  Status check_integrity() const { return scheduler_.check_integrity(); }

 private:
  Engine(EngineOptions options, std::unique_ptr<Executor> executor,
         std::unique_ptr<KvFiles> kv_files, std::shared_ptr<const Tokenizer> tokenizer,
         std::shared_ptr<const Clock> clock, const KvSizing& sizing);

  std::unique_ptr<Group> make_group(Submission& submission, int64_t now_us);
  Request make_request(const Choice& choice, const GenerationRequest& request,
                       int64_t now_us) const;
  // A step whose result has not come. Of the plan: its id and what was scheduled.
  struct StepUnderWay {
    StepPlan plan;
    int64_t begin_us = 0;
    int64_t scheduled_us = 0;
  };

  Choice* find(RequestId id);
  // The next step's plan, with the masks of what it samples.
  const StepPlan& make_plan(int64_t now_us);
  // step() where steps overlap: plans and submits one, then collects one when enough are under way.
  bool overlapped_step();
  // A plan of nothing but copies, which others than requests wait for. False: it has none.
  bool make_host_copies(const StepPlan& plan);
  Status submit(const StepPlan& plan);
  void collect_oldest();
  // The executor's answer to a step, checked; its exceptions as errors.
  Result<StepResult> answer(const StepPlan& plan, const std::function<Result<StepResult>()>& call);
  void finish_step(const StepPlan& plan, Result<StepResult> result, StepRecord step,
                   int64_t executed_us);
  void note_scheduled(const StepPlan& plan, int64_t now_us);
  void apply(const RequestUpdate& update, int64_t now_us);
  void take_tokens(Choice& choice, const RequestUpdate& update, int64_t now_us);
  // engine_beams.cc: searches
  void apply_to_beam(Choice& choice, const RequestUpdate& update, int64_t now_us);
  void advance_beams(Group& group, int64_t now_us);
  void end_beams(Group& group);
  void note_tokens(Choice& choice, int32_t num_tokens, int64_t now_us);
  void note_drafts(Choice& choice, const RequestUpdate& update);
  void fail_step(const StepPlan& plan, const Status& status);
  void expire(int64_t now_us);
  void push(Choice& choice, OutputDelta delta);
  bool push_to_channel(const Choice& choice, OutputDelta delta);
  void note_end(Choice& choice, const Choice& computed, FinishReason reason);
  void end_choice(Choice& choice, FinishReason reason, Status status, OutputDelta delta = {});
  void end_group(Group& group, FinishReason reason, const Status& status);
  void flush();
  void set_gauges();
  void drain_kv();
  void record(const StepPlan& plan, const StepResult* result, StepRecord step);

  const EngineOptions options_;
  const std::unique_ptr<Executor> executor_;
  const std::unique_ptr<KvFiles> kv_files_;  // uses the executor's memory; null: none
  const ExecutorInfo model_;
  const std::shared_ptr<const Tokenizer> tokenizer_;  // shared with the frontend
  const std::shared_ptr<const Clock> clock_;          // shared with the frontend
  const int64_t start_us_;
  const RequestLimits limits_;
  StructuredOutputService structured_outputs_;  // outlives the choices, whose masks it makes
  EngineMetrics metrics_;
  KvManager kv_;
  KvHandovers handovers_;
  ChoiceMasks masks_;
  ChoiceDrafts drafts_;
  Scheduler scheduler_;
  EngineLog log_;
  StepCosts step_costs_;

  uint64_t num_requests_ = 0;  // ids given out
  std::unordered_map<GroupId, std::unique_ptr<Group>> groups_;
  std::unordered_map<RequestId, Choice*> choices_;
  std::vector<Group*> news_;  // groups to notify after this step
  std::vector<KvEvent> kv_events_;
  std::vector<ResidencySample> residency_;
  std::vector<StepRecord> steps_;  // ring
  size_t next_step_ = 0;
  std::deque<StepUnderWay> under_way_;  // oldest first
  int64_t last_step_end_us_ = 0;
  int64_t flush_us_ = 0;  // of the last step's flush, which comes too late for its own record
  Status lost_;
};

}  // namespace quire
