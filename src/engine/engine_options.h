// The settings of one engine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "core/kv_files.h"
#include "draft/drafter.h"
#include "engine/handover/kv_handovers.h"
#include "engine/observe/step_cost.h"
#include "engine/output/output_channel.h"
#include "engine/structured/structured_output_options.h"
#include "kv/kv_manager.h"
#include "sched/scheduler_config.h"

namespace quire {

struct EngineOptions {
  // max_model_len 0 means the model's length, or less if the KV memory cannot hold one request of
  // that length. async_scheduling has no effect if the executor runs one step at a time.
  SchedulerConfig scheduler{.max_model_len = 0};
  // The engine sets max_sequence_tokens and max_step_tokens.
  KvOptions kv;

  // Proposes drafts, at most scheduler.num_speculative_tokens per step and request; null: no
  // drafts. It belongs to this engine alone, which calls it on its own thread.
  std::shared_ptr<Drafter> drafter;
  // If true, a step gets as many drafts as pay, by how long steps take: by
  // scheduler.draft_planner.row_times, which are measured when the engine starts if they are
  // unknown. If false, a step gets all drafts, unless row_times are known.
  bool weigh_drafts = true;

  // KV memory: exactly this many blocks (the null block included), or else this many bytes, or else
  // what the executor says is available.
  std::optional<int32_t> num_blocks;
  std::optional<int64_t> kv_cache_bytes;

  // Host memory for KV blocks that are evicted from the device, if the executor keeps blocks on the
  // host; 0: none.
  int64_t kv_offload_bytes = 0;

  // Opens the files that keep KV beyond the process, by the other settings of kv.files; null: none.
  // Needs an executor that keeps blocks on the host, in kv_offload_bytes.
  std::function<Result<std::unique_ptr<KvFiles>>(const KvHostMemory& memory)> open_kv_files;

  // Splits prefill and decode between engines; needs open_kv_files.
  KvHandoverOptions kv_handover;

  StreamLimits stream;
  StructuredOutputOptions structured_outputs;
  int32_t max_logprobs = 20;  // per token; -1: no limit
  // Per request; a larger request is refused.
  int64_t max_prompt_logprobs_bytes = int64_t{256} << 20;
  // From arrival, for requests without a timeout.
  std::optional<int64_t> default_timeout_us;

  // Does all deferred work of the executor (Executor::work_while_idle) at the start. For
  // benchmarks, whose requests would otherwise wait for it.
  bool prepare_at_start = false;
  int64_t log_interval_us = 10'000'000;  // between log lines about throughput; 0: none
  bool log_steps = false;                // one debug line per step
  // Gives every step its bound and prediction; null: none, until AsyncEngine::set_cost_model().
  // Shared with code that shows the hardware.
  std::shared_ptr<const CostModel> cost_model;
  std::vector<StepObserver> step_observers;
  // Called once, on the engine thread, when a fault or a lost device ends the engine: every request
  // has got its error, and AsyncEngine::healthy() is false from then on.
  std::function<void()> on_death;
  // Called on the engine thread after each step that changed the prefix cache; needs
  // kv.enable_events.
  std::function<void(const std::vector<KvEvent>& events)> on_kv_events;
};

}  // namespace quire
