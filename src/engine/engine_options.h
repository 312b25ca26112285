// What an operator may set about one engine.
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
  // max_model_len 0 stands for the model's length, or as much of it as one request can have of the
  // KV memory. async_scheduling has no effect where the executor runs one step at a time.
  SchedulerConfig scheduler{.max_model_len = 0};
  // max_sequence_tokens and max_step_tokens are filled in by the engine.
  KvOptions kv;

  // Guesses tokens, at most scheduler.num_speculative_tokens per step and request; null: nobody
  // does. Of this engine alone, which calls it on its own thread.
  std::shared_ptr<Drafter> drafter;
  // If true, a step gets as many drafts as pay, by how long steps take: by
  // scheduler.draft_planner.row_times, which are measured when the engine starts if they are not
  // known. If false, it gets all drafts, unless row_times are known.
  bool weigh_drafts = true;

  // KV memory: exactly this many blocks (the null block included), else this many bytes, else what
  // the executor says is available.
  std::optional<int32_t> num_blocks;
  std::optional<int64_t> kv_cache_bytes;

  // Host memory for KV blocks that leave the device, for executors that keep some there; 0 is none.
  int64_t kv_offload_bytes = 0;

  // Opens the files that keep KV when the process ends, kv.files' other fields saying how; null:
  // none. Of executors that keep blocks on the host, in kv_offload_bytes.
  std::function<Result<std::unique_ptr<KvFiles>>(const KvHostMemory& memory)> open_kv_files;

  // Prefill and decode in engines of their own; needs open_kv_files.
  KvHandoverOptions kv_handover;

  StreamLimits stream;
  StructuredOutputOptions structured_outputs;
  int32_t max_logprobs = 20;                               // per token; -1: no limit
  int64_t max_prompt_logprobs_bytes = int64_t{256} << 20;  // of one request; beyond it is refused
  // Counts from arrival, for requests that bring none.
  std::optional<int64_t> default_timeout_us;

  // Does at the start what an executor would do while there is nothing to run
  // (Executor::work_while_idle): for benchmarks, whose requests would wait for it.
  bool prepare_at_start = false;
  int64_t log_interval_us = 10'000'000;  // between log lines about throughput; 0: none
  bool log_steps = false;                // one debug line per step
  // Gives every step its bound and prediction; null: none, until AsyncEngine::set_cost_model().
  // Shared with whoever shows the hardware.
  std::shared_ptr<const CostModel> cost_model;
  std::vector<StepObserver> step_observers;
  // Called once, on the engine thread, when a fault or a lost device ends it: every request has got
  // its error, and AsyncEngine::healthy() is false from then on.
  std::function<void()> on_death;
  // Called on the engine thread after each step that changed the prefix cache; needs
  // kv.enable_events.
  std::function<void(const std::vector<KvEvent>& events)> on_kv_events;
};

}  // namespace quire
