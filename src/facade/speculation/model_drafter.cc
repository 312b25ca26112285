#include "facade/speculation/model_drafter.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "draft/executor_drafter.h"
#include "engine/observe/row_time_probe.h"
#include "exec/drafting/medusa_runner.h"
#include "facade/speculation/quantized_copy.h"
#include "models/drafting/draft_head.h"
#include "weights/files/model_files.h"

namespace quire {
namespace {

// Returns the blocks that all running requests could use, as far as they fit in an eighth of the
// memory.
KvPlan kv_plan_of(const Executor& executor, const ModelRunnerOptions& options) {
  const KvSpec kv = executor.kv_spec();
  const int64_t per_request =
      (executor.info().max_model_len / kv.block_size + 1) * std::ssize(kv.groups);
  const int64_t most = executor.available_kv_bytes() / 8 / std::max<int64_t>(1, kv.block_bytes);
  return {.num_blocks = static_cast<int32_t>(
              std::min({most, 1 + per_request * options.max_num_seqs, int64_t{1} << 30}))};
}

struct Loaded {
  std::unique_ptr<Executor> executor;
  std::string name;
  ModelRunnerOptions options = {};
  std::shared_ptr<HiddenRows> hidden_rows = {};
  int32_t num_advised = 0;  // drafts per step that the files advise; 0: none
  int32_t max_drafts = 0;   // the most drafts per step; 0: any number
};

// Makes the copy from the model's files. For a shape, whose weights are random, the copy has other
// weights.
Result<QuantizedCopy> copy_of(const ModelRunnerOptions& options) {
  Result<QuantizedCopy> copy = QuantizedCopy::make(
      *options.files, {.num_threads = options.threads, .pin = options.pin_threads});
  if (copy.ok()) return copy;
  return copy.status().with_context(
      "--speculative-config: self without num_hidden_layers: a copy of 4 bits");
}

Result<Loaded> load_model(const SpeculativeConfig& config, ModelRunnerOptions options,
                          const LoadExecutor& load) {
  Loaded out;
  std::optional<QuantizedCopy> copy;
  if (config.method == SpeculativeMethod::kSelf && config.num_hidden_layers > 0) {
    out.name = fmt::format("the model's first {} layers", config.num_hidden_layers);
    options.num_hidden_layers = config.num_hidden_layers;
  } else if (config.method == SpeculativeMethod::kSelf) {
    out.name = "the model's copy of 4 bits";
    if (options.files == nullptr) {
      options.shape_weights = kCopyWeights;
    } else {
      QUIRE_ASSIGN_OR_RETURN(QuantizedCopy made, copy_of(options));
      options.files = made.files();
      copy.emplace(std::move(made));
    }
  } else {
    out.name = config.model;
    QUIRE_ASSIGN_OR_RETURN(ModelFiles files, ModelFiles::open(config.model));
    options.files = std::make_shared<const ModelFiles>(std::move(files));
    options.shape.clear();
    options.max_model_len = 0;  // that of the drafter
  }
  Result<std::unique_ptr<Executor>> executor = load(options);
  if (!executor.ok()) return executor.status().with_context("the model that drafts");
  out.executor = std::move(*executor);
  out.options = std::move(options);
  return out;
}

DraftHeadKind head_kind(SpeculativeMethod method) {
  switch (method) {
    case SpeculativeMethod::kEagle:
      return DraftHeadKind::kEagle;
    case SpeculativeMethod::kEagle3:
      return DraftHeadKind::kEagle3;
    default:
      return DraftHeadKind::kMtp;
  }
}

// Drafters of hidden states compute little for many tokens: steps of this size are as fast, and
// need less memory for their states.
constexpr int64_t kHeadStepTokens = 512;

Result<Loaded> load_head(const SpeculativeConfig& config, ModelRunnerOptions options,
                         const LoadExecutor& load) {
  if (options.files == nullptr) {
    return invalid_argument(
        "--speculative-config: expected a model with files, whose hidden states are read, got a "
        "shape");
  }
  DraftTarget target{.files = options.files};
  QUIRE_ASSIGN_OR_RETURN(const TensorSource source, TensorSource::open(*target.files));
  QUIRE_ASSIGN_OR_RETURN(target.config, read_model_config(*target.files, source));
  Loaded out{.name = config.model.empty() ? "the model's own MTP layer" : config.model};
  if (!config.model.empty()) {
    QUIRE_ASSIGN_OR_RETURN(ModelFiles files, ModelFiles::open_folder(config.model));
    options.files = std::make_shared<const ModelFiles>(std::move(files));
  }
  options.max_num_batched_tokens = std::min(options.max_num_batched_tokens, kHeadStepTokens);
  if (config.method == SpeculativeMethod::kMedusa) {
    out.hidden_rows = std::make_shared<HiddenRows>(HiddenRowsSpec{.sampled_only = true});
    options.hidden_rows = out.hidden_rows;
    QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<MedusaRunner> runner,
                           MedusaRunner::create(options, target.config));
    out.num_advised = out.max_drafts = runner->num_heads();
    out.executor = std::move(runner);
  } else {
    QUIRE_ASSIGN_OR_RETURN(options.draft_head,
                           read_draft_head(head_kind(config.method), options.files, target));
    out.num_advised =
        config.method == SpeculativeMethod::kMtp ? 1 : options.draft_head->num_speculative_tokens;
    out.hidden_rows =
        std::make_shared<HiddenRows>(HiddenRowsSpec{.layers = options.draft_head->layers});
    options.hidden_rows = out.hidden_rows;
    Result<std::unique_ptr<Executor>> executor = load(options);
    if (!executor.ok()) return executor.status().with_context("the model that drafts");
    out.executor = std::move(*executor);
  }
  out.options = std::move(options);
  return out;
}

// Takes KV memory and measures steps.
Result<ModelDrafter> start(Loaded loaded, int32_t num_drafts) {
  const bool keeps_kv = !loaded.executor->kv_spec().groups.empty();
  const KvPlan kv_plan =
      keeps_kv ? kv_plan_of(*loaded.executor, loaded.options) : KvPlan{.num_blocks = 1 << 16};
  if (kv_plan.num_blocks < 2)
    return resource_exhausted("{}: no memory is left for its KV cache", loaded.name);
  QUIRE_RETURN_IF_ERROR(loaded.executor->initialize(kv_plan));
  QUIRE_RETURN_IF_ERROR(loaded.executor->warm_up());
  const auto max_step_tokens = static_cast<int32_t>(loaded.options.max_num_batched_tokens);
  const RowTimes times =
      measure_row_times(*loaded.executor, kv_plan, max_step_tokens, SteadyClock());
  ModelDrafter made{.name = std::move(loaded.name),
                    .vocab_size = loaded.executor->info().vocab_size,
                    .hidden_rows = loaded.hidden_rows,
                    .num_speculative_tokens = num_drafts};
  QUIRE_ASSIGN_OR_RETURN(
      made.drafter,
      ExecutorDrafter::create(std::move(loaded.executor),
                              {.num_blocks = kv_plan.num_blocks,
                               .max_step_tokens = max_step_tokens,
                               .max_seqs = static_cast<int32_t>(loaded.options.max_num_seqs),
                               .step_times = times,
                               .hidden_rows = std::move(loaded.hidden_rows),
                               .max_drafts = loaded.max_drafts}));
  log_info("{} drafts: {:.2f} ms a token, {} KV blocks", made.name,
           times.known() ? times.us(1) * 1e-3 : 0.0, keeps_kv ? kv_plan.num_blocks : 0);
  return made;
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
  Loaded loaded;
  if (config.reads_hidden_states()) {
    QUIRE_ASSIGN_OR_RETURN(loaded, load_head(config, std::move(options), load));
  } else {
    QUIRE_ASSIGN_OR_RETURN(loaded, load_model(config, std::move(options), load));
  }
  const int32_t num_drafts =
      config.num_speculative_tokens > 0 ? config.num_speculative_tokens : loaded.num_advised;
  if (num_drafts == 0) {
    return invalid_argument(
        "--speculative-config: num_speculative_tokens: expected a number, which {} does not say",
        loaded.name);
  }
  if (loaded.max_drafts > 0 && num_drafts > loaded.max_drafts) {
    return invalid_argument(
        "--speculative-config: num_speculative_tokens: expected at most {}, the heads of {}, got "
        "{}",
        loaded.max_drafts, loaded.name, num_drafts);
  }
  return start(std::move(loaded), num_drafts);
}

Status check_same_vocabulary(const ModelDrafter& drafter, int64_t vocab_size) {
  if (drafter.vocab_size == vocab_size) return {};
  return invalid_argument(
      "--speculative-config: {}: expected the served model's vocabulary of {} tokens, got {}",
      drafter.name, vocab_size, drafter.vocab_size);
}

}  // namespace quire
