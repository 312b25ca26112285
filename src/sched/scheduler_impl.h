// The scheduler's state and the steps of its work. Charter: this class only moves entries between
// waiting, running and finished and keeps the counts right; order is WaitingQueue's, limits are
// QueueLimits', victims are choose_victim's, stopping is check_stop's, blocks are KvManager's.
// Internal to sched/.
#pragma once

#include <deque>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "draft/draft_planner.h"
#include "sched/adapters/adapter_uses.h"
#include "sched/entry.h"
#include "sched/media/media_gate.h"
#include "sched/queue_limits.h"
#include "sched/scheduler.h"
#include "sched/step_time.h"
#include "sched/waiting_queue.h"

namespace quire {

class Scheduler::Impl {
 public:
  Impl(const SchedulerConfig& config, KvManager& kv, Drafter* drafter);

  // scheduler.cc: requests come and go
  Status add(Request request);
  void set_step_times(const StepTimeTable& table);
  bool finish(RequestId id, RequestStatus status);
  void hold(RequestId id, bool held);
  std::span<const RequestId> expire(int64_t now_us);
  const Entry* find(RequestId id) const;
  SchedulerStats stats() const;
  int32_t num_waiting() const { return waiting_.size() + num_fork_waiting_; }
  int32_t num_running() const { return static_cast<int32_t>(running_.size()); }

  // scheduler_step.cc: who computes what
  StepPlan& schedule(int64_t now_us);

  // beams/scheduler_beams.cc: beams of one search
  void note_moves(std::span<const BeamMove> moves);

  // scheduler_drafts.cc: what is guessed
  void set_row_times(const RowTimes& row_times) { draft_planner_.set_row_times(row_times); }

  // scheduler_update.cc: what came of it
  std::span<const RequestUpdate> update(const StepResult& result, int64_t now_us);

  // scheduler_run.cc: many steps of decodes at once
  int32_t max_decode_run() const;
  void run_decodes(int64_t begin_us, std::span<const int64_t> end_us, DecodeTokens& tokens);

  const EncoderCacheStats& encoder_stats() const { return media_.cache().stats(); }

  // scheduler_check.cc
  Status check_integrity() const;

  std::span<const AdapterUse> adapter_uses() const { return adapters_.uses(); }

  SchedulerConfig config_;
  KvManager& kv_;
  Drafter* const drafter_;  // null: no drafts
  DraftPlanner draft_planner_;
  const bool stops_for_forks_;  // leaders of forks must, since layers keep states
  QueueLimits limits_;

 private:
  enum class Admission : uint8_t { kAdmitted, kNoBudget, kNoBlocks, kHeld };

  Status check_request(const Request& request) const;
  int32_t max_kv_tokens(const Request& request) const;
  Status check_fork(const Request& request) const;
  Status check_beam(const Request& request) const;
  Entry& new_entry(Request request);
  void join_beams(Entry& entry);
  void retire_beams(Entry& leader, RequestStatus status);
  void preempt_beams(Entry& leader);
  void admit_beams(Entry& leader);
  void move_beams();
  void move_beams(Entry& leader);
  bool fork_beam(Entry& beam);
  bool waits_for_prompt(const Entry& entry) const;
  void take_prompt(Entry& beam);
  BlockCounts blocks_for_beam(int32_t num_tokens, int32_t num_prompt_tokens) const;
  BlockCounts owed_to_beam(const Entry& beam) const;
  BlockCounts owed_to_other_beams(const Entry& leader) const;
  bool has_place_for(const Entry& entry) const;
  void leave_queue_accounting(Entry& entry);
  void release_fork_waiters(RequestId leader);
  void remove_fork_waiter(Entry& entry);
  // Frees what the entry holds and marks it finished. The caller takes it off running_ when it was
  // there.
  void retire(Entry& entry, RequestStatus status);
  void recycle_finished();
  void compact_running();

  void grant_running();
  void bound_step_time();
  bool decodes(const Entry& entry) const;
  bool may_exceed_step_time(const Entry& entry, int32_t position) const;
  bool has_time_for(const Entry& entry) const;
  int32_t clip_to_step_time(const Entry& entry, int32_t position, int32_t num_tokens) const;
  void note_step_time();
  bool may_compute(const Entry& entry) const;
  bool stops_for_fork(const Entry& entry, int32_t position) const;
  int32_t clip_to_fork(const Entry& entry, int32_t position, int32_t num_tokens) const;
  int32_t clip_tokens(int32_t num_tokens, int32_t budget) const;
  bool make_room(Entry& entry, int32_t num_tokens);
  void preempt(Entry& entry);
  void stop_running(Entry& entry);
  void grant(Entry& entry, int32_t num_tokens);
  BlockCounts owed_blocks(bool hard_only) const;
  BlockCounts owed_blocks(const Entry& entry) const;
  BlockCounts watermark_blocks() const;
  bool admission_paused();
  void admit_waiting();
  void admit_short();
  Entry* find_adapter_head() const;
  bool waits_for_adapter(const Entry& entry) const;
  void note_overtaken(const Entry& admitted);
  bool has_common_place() const;
  bool not_worth_a_try(const Entry& entry, const BlockCounts& available) const;
  Admission try_admit(Entry& entry);
  bool promote_prefix(const Entry& entry);
  void store_in_files(const Entry& entry, bool whole);
  PrefixHit find_hit(Entry& entry);
  void join_running(Entry& entry, const PrefixHit& hit, int32_t num_tokens);
  void grant_drafts();
  DraftStep collect_draft_queries();
  int32_t most_drafts(const Entry& entry) const;
  void propose_chosen();
  static void note_idle(Entry& entry, const DraftCandidate& candidate);
  void place_drafts();
  int32_t room_for_drafts(Entry& entry, int32_t num_drafts, const BlockCounts& num_reserved_blocks);
  void build_plan();
  std::vector<TokenId> copy_of_tokens(const Request& request);

  Entry* match(size_t index, RequestId id, uint64_t step_id);
  void apply(Entry& entry, const RequestStepResult& result);
  void fail_unanswered(uint64_t step_id);
  void end_with_error(Entry& entry, const RequestStepResult* result, Status status);
  Status check_samples(const Entry& entry, const Flight& flight,
                       std::span<const TokenId> token_ids) const;
  void append_tokens(Entry& entry, std::span<const TokenId> token_ids, RequestUpdate& update);
  void count_computed(Entry& entry, int32_t begin, int32_t end);

  int32_t decode_run_of(const Entry& entry) const;
  void sort_by_phase();
  void run_step(size_t step, std::span<Entry* const> growing, std::span<Entry* const> filling);
  void add_slot_stats(int64_t num_uncommitted);
  void end_run(int32_t num_steps);

  Status check_membership() const;
  Status check_entry(const Entry& entry) const;

  // Records have stable addresses; a finished one is reused after the next schedule().
  std::deque<Entry> entries_;
  std::vector<Entry*> unused_entries_;
  std::vector<Entry*> finished_;
  std::unordered_map<RequestId, Entry*> by_id_;
  std::set<std::pair<int64_t, RequestId>> deadlines_;

  WaitingQueue waiting_;
  std::unordered_map<RequestId, std::vector<Entry*>>
      fork_waiters_;  // by leader; looked up, never iterated
  int32_t num_fork_waiting_ = 0;
  std::vector<Entry*> running_;  // in order of admission
  std::vector<Entry*> moving_;   // leaders of searches whose beams move in the next step

  // Of the step being planned.
  int64_t now_us_ = 0;
  uint64_t round_ = 0;  // calls of schedule()
  int32_t budget_ = 0;
  bool preempted_ = false;
  BlockCounts hard_owed_;  // blocks promised to running requests with a hard reservation
  BlockCounts owed_;       // blocks that admitted requests will still take, while admitting

  // Of the step being planned, where time bounds it.
  struct StepTimeBudget {
    bool bounded = false;
    double limit_us = 0;
    double decode_us = 0;                 // of limit_us, predicted for the decodes
    double prompt_us = 0;                 // of limit_us, left for prompt tokens
    bool by_priority = false;             // prompts are dealt theirs in the order of by_priority_
    bool has_chunk = false;               // some prompt has its tokens of this step
    int32_t most_important_priority = 0;  // among the decodes
  };
  StepTimeBudget step_time_;
  StepTimePredictor step_times_;
  std::vector<Entry*> by_priority_;  // the running requests, when priorities share the time

  // Of the step being planned: who may have drafts.
  std::vector<DraftQuery> draft_queries_;
  std::vector<Entry*> draft_entries_;             // parallel to draft_queries_
  std::vector<DraftCandidate> draft_candidates_;  // the same

  MediaGate media_;
  AdapterUses adapters_;
  Entry* adapter_head_ = nullptr;  // of the step being planned: find_adapter_head()

  bool admission_paused_ = false;
  bool batch_forming_ = true;  // static batches: the current batch may still grow
  int32_t num_hard_running_ = 0;
  int32_t num_short_running_ = 0;

  StepPlan plan_;
  std::vector<Entry*> plan_entries_;                // parallel to plan_.scheduled
  std::vector<std::vector<TokenId>> spare_tokens_;  // memory of new requests of earlier plans
  std::vector<RequestId> dropped_;                  // to be told to the executor
  std::vector<RequestUpdate> updates_;
  std::vector<RequestId> expired_;
  SchedulerStats stats_;

  // Of run_decodes(): the running requests, by computed tokens modulo the block size.
  std::vector<std::vector<Entry*>> phases_;
  std::vector<BlockTableUpdate> unsent_;
  std::vector<HostBlockCopy> unsent_host_copies_;
};

}  // namespace quire
