#include "facade/speculation/model_drafter.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "draft/executor_drafter.h"
#include "engine/observe/row_time_probe.h"
#include "weights/files/model_files.h"

namespace quire {
namespace {

// Blocks that all running requests could use, as far as they fit in an eighth of the memory.
KvPlan kv_plan_of(const Executor& executor, const ModelRunnerOptions& options) {
  const KvSpec kv = executor.kv_spec();
  const int64_t per_request =
      (executor.info().max_model_len / kv.block_size + 1) * std::ssize(kv.groups);
  const int64_t most = executor.available_kv_bytes() / 8 / std::max<int64_t>(1, kv.block_bytes);
  return {.num_blocks = static_cast<int32_t>(
              std::min({most, 1 + per_request * options.max_num_seqs, int64_t{1} << 30}))};
}

}  // namespace

Result<ModelDrafter> make_model_drafter(const SpeculativeConfig& config,
                                        const ModelRunnerOptions& target,
                                        const LoadExecutor& load) {
  ModelRunnerOptions options = target;
  options.kv_cache_memory_bytes.reset();
  options.on_progress = nullptr;
  options.weight_cache_dir.clear();
  options.max_adapters = 0;
  ModelDrafter made;
  if (config.method == SpeculativeMethod::kSelf) {
    made.name = fmt::format("the model's first {} layers", config.num_hidden_layers);
    options.num_hidden_layers = config.num_hidden_layers;
  } else {
    made.name = config.model;
    QUIRE_ASSIGN_OR_RETURN(ModelFiles files, ModelFiles::open(config.model));
    options.files = std::make_shared<const ModelFiles>(std::move(files));
    options.shape.clear();
    options.max_model_len = 0;  // its own
  }
  Result<std::unique_ptr<Executor>> loaded = load(options);
  if (!loaded.ok()) return loaded.status().with_context("the model that drafts");
  std::unique_ptr<Executor> executor = std::move(*loaded);
  made.vocab_size = executor->info().vocab_size;
  const KvPlan kv_plan = kv_plan_of(*executor, options);
  if (kv_plan.num_blocks < 2)
    return resource_exhausted("{}: no memory is left for its KV cache", made.name);
  QUIRE_RETURN_IF_ERROR(executor->initialize(kv_plan));
  QUIRE_RETURN_IF_ERROR(executor->warm_up());
  const RowTimes times = measure_row_times(
      *executor, kv_plan, static_cast<int32_t>(options.max_num_batched_tokens), SteadyClock());
  QUIRE_ASSIGN_OR_RETURN(
      std::unique_ptr<ExecutorDrafter> drafter,
      ExecutorDrafter::create(
          std::move(executor),
          {.num_blocks = kv_plan.num_blocks,
           .max_step_tokens = static_cast<int32_t>(options.max_num_batched_tokens),
           .max_seqs = static_cast<int32_t>(options.max_num_seqs),
           .step_times = times}));
  made.drafter = std::move(drafter);
  log_info("{} drafts: {:.2f} ms a token, {} KV blocks", made.name,
           times.known() ? times.us(1) * 1e-3 : 0.0, kv_plan.num_blocks);
  return made;
}

Status check_same_vocabulary(const ModelDrafter& drafter, int64_t vocab_size) {
  if (drafter.vocab_size == vocab_size) return {};
  return invalid_argument(
      "--speculative-config: {}: expected the served model's vocabulary of {} tokens, got {}",
      drafter.name, vocab_size, drafter.vocab_size);
}

}  // namespace quire
