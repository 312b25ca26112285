// EngineMetrics collects EngineStats: the engine thread reports events, and any thread may take
// copies.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "engine/observe/engine_stats.h"
#include "engine/output/generation.h"
#include "kv/books/kv_events.h"
#include "kv/kv_manager.h"
#include "sched/scheduler.h"

namespace quire {

// The last kCapacity observations.
class RecentWindow {
 public:
  static constexpr size_t kCapacity = 2048;
  void add(double value);
  Percentiles percentiles() const;

 private:
  std::vector<double> values_;
  size_t next_ = 0;
};

// The times and counts of a choice that ended by stop or length.
struct FinishedChoice {
  ChoiceTimes times;
  int32_t num_prompt_tokens = 0;
  int32_t num_cached_tokens = 0;
  int32_t num_output_tokens = 0;
  int32_t max_tokens = 0;
  int32_t num_preemptions = 0;
};

// Every method locks; none is called for each token separately.
class EngineMetrics {
 public:
  // The engine's constants are taken from `constants`.
  explicit EngineMetrics(EngineStats constants);

  void on_submitted(bool accepted);
  void on_first_token(int64_t time_to_first_token_us, int32_t num_prompt_tokens,
                      int32_t num_cached_tokens);
  // Records tokens of a choice that came gap_us after its last ones; its first ones have no gap.
  void on_tokens(int32_t num_tokens, std::optional<int64_t> gap_us);
  // Records that a step verified `num_drafts` drafts of a choice and accepted the first
  // `num_accepted`.
  void on_drafts(int32_t num_drafts, int32_t num_accepted);
  // Records that all beams of a search have computed their next tokens.
  void on_beam_step(int32_t num_beams);
  void on_finished(FinishReason reason, const FinishedChoice& choice);
  // Records that a client request has ended, of which at least one choice ended by stop or length;
  // the longest has max_output_tokens tokens.
  void on_group_finished(int32_t num_choices, int32_t max_output_tokens);
  void on_overflow();
  void on_deadline();
  void on_corrupted();
  void on_step(const StepRecord& step);
  void on_residency(const std::vector<ResidencySample>& samples);
  void set_graphs(const GraphCounts& graphs);
  void set_kv_files(const KvFileStats& files);
  // `states` are the statistics of KvPool::kState, all zero for models without states.
  void set_gauges(const SchedulerStats& scheduler, const EncoderCacheStats& media,
                  const KvStats& kv, const KvStats& states);
  void set_adapters(std::span<const AdapterUse> uses);

  // The caller gives `uptime_us`; `num_submitted` requests wait in the mailbox.
  EngineStats snapshot(int64_t uptime_us, int64_t num_submitted) const;

 private:
  void on_step_cost(const StepRecord& step);  // precondition: the lock is held

  mutable std::mutex mutex_;
  EngineStats stats_;
  uint64_t iteration_tokens_ = 0;  // of the step in progress
  RecentWindow recent_ttft_;
  RecentWindow recent_itl_;
  RecentWindow recent_step_;
};

}  // namespace quire
