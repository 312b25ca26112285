#include "engine/observe/engine_log.h"

#include <utility>

#include "base/log.h"

namespace quire {

void EngineLog::throughput(const EngineStats& stats, int64_t now_us) {
  const double seconds = static_cast<double>(now_us - last_us_) * 1e-6;
  const bool first = last_us_ == 0;
  last_us_ = now_us;
  const auto prompt = stats.prompt_tokens - std::exchange(last_prompt_tokens_, stats.prompt_tokens);
  const auto generation =
      stats.generation_tokens - std::exchange(last_generation_tokens_, stats.generation_tokens);
  const auto queries =
      stats.prefix_cache_queries - std::exchange(last_queries_, stats.prefix_cache_queries);
  const auto hits = stats.prefix_cache_hits - std::exchange(last_hits_, stats.prefix_cache_hits);
  const bool busy =
      prompt + generation > 0 || stats.num_requests_running + stats.num_requests_waiting > 0;
  // One line after the work has ended shows that the queue is empty; after that there are none.
  const bool say = busy || was_busy_;
  was_busy_ = busy;
  if (first || !say) return;
  log_info(
      "engine: prompt {:.1f} tokens/s, generation {:.1f} tokens/s, running {}, waiting {}, "
      "KV cache {:.1f} %, prefix cache hits {:.1f} %",
      static_cast<double>(prompt) / seconds, static_cast<double>(generation) / seconds,
      stats.num_requests_running, stats.num_requests_waiting, 100 * stats.kv_cache_usage,
      queries == 0 ? 0.0 : 100 * static_cast<double>(hits) / static_cast<double>(queries));
  if (!stats.graphs) return;
  log_info("graphs: {} captured; {} steps ran as graphs, {} without, {} tokens of padding",
           stats.graphs->num_graphs, stats.graphs->num_graph_steps, stats.graphs->num_eager_steps,
           stats.graphs->num_padding_tokens);
}

void EngineLog::step(const StepRecord& step) const {
  if (!log_steps_) return;
  log_debug(
      "step={} requests={} tokens={} decodes={} kv_blocks={} schedule_us={} execute_us={} "
      "update_us={} bound_us={:.0f} predicted_us={:.0f} failed={}",
      step.step_id, step.num_requests, step.num_tokens, step.num_decodes, step.kv_blocks_in_use,
      step.schedule_us, step.execute_us, step.update_us, step.cost.bound_us, step.cost.total_us,
      step.failed);
}

}  // namespace quire
