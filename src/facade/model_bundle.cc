#include "facade/model_bundle.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "facade/builtin_model.h"
#include "facade/load_tokenizer.h"
#include "facade/model_executor.h"
#include "facade/step_costs.h"

namespace quire {
namespace {

std::string model_name(const std::string& path) {
  if (path.empty()) return kBuiltinModelName;
  const std::filesystem::path normal = std::filesystem::path(path).lexically_normal();
  const std::string last =
      (normal.has_filename() ? normal : normal.parent_path()).filename().string();
  return last.empty() ? path : last;
}

// Ids that end an answer: generation_config.json, else config.json, else the tokenizer's own EOS.
Result<GenerationConfig> read_generation_config(const ModelFiles& files,
                                                const Tokenizer* tokenizer) {
  GenerationConfig config;
  if (files.contains("generation_config.json")) {
    QUIRE_ASSIGN_OR_RETURN(const std::string_view text, files.text("generation_config.json"));
    QUIRE_ASSIGN_OR_RETURN(config, parse_generation_config(text, "generation_config.json"));
  }
  if (config.eos_token_ids.empty() && files.contains("config.json")) {
    QUIRE_ASSIGN_OR_RETURN(const std::string_view text, files.text("config.json"));
    QUIRE_ASSIGN_OR_RETURN(const GenerationConfig fallback,
                           parse_generation_config(text, "config.json"));
    config.eos_token_ids = fallback.eos_token_ids;
  }
  if (config.eos_token_ids.empty() && tokenizer != nullptr && tokenizer->eos_id()) {
    config.eos_token_ids.push_back(*tokenizer->eos_id());
  }
  return config;
}

Result<ModelBundle> open_files(std::string name, ModelFiles model_files) {
  ModelBundle bundle;
  bundle.name = std::move(name);
  bundle.files = std::make_shared<const ModelFiles>(std::move(model_files));
  QUIRE_ASSIGN_OR_RETURN(bundle.tokenizer, load_tokenizer(*bundle.files));
  QUIRE_ASSIGN_OR_RETURN(bundle.chat, ModelChat::load(*bundle.files, bundle.tokenizer.get()));
  QUIRE_ASSIGN_OR_RETURN(bundle.generation,
                         read_generation_config(*bundle.files, bundle.tokenizer.get()));
  return bundle;
}

// What can be refused without the model.
Status check_scheduler(SchedulerConfig config) {
  if (config.max_model_len == 0) config.max_model_len = 1;  // the model's, not known yet
  return config.validate();
}

}  // namespace

Result<ModelBundle> open_model(const std::string& path) {
  if (path.empty()) return open_files(model_name(path), builtin_model_files());
  QUIRE_ASSIGN_OR_RETURN(ModelFiles files, ModelFiles::open(path));
  return open_files(model_name(path), std::move(files));
}

ModelRunnerOptions model_runner_options(const EngineArgs& args, const ModelBundle& bundle) {
  ModelRunnerOptions options;
  options.files = bundle.files;
  options.shape = args.shape;
  options.shape_weights = args.shape_weights;
  options.dtype = args.dtype;
  options.kv_cache_dtype = args.kv_cache_dtype;
  options.isa = args.isa;
  options.threads = args.num_threads;
  options.weight_cache_dir = args.weight_cache_dir;
  options.block_size = args.block_size;
  options.max_model_len = args.engine.scheduler.max_model_len;
  options.max_num_batched_tokens = args.engine.scheduler.max_num_batched_tokens;
  options.max_num_seqs = args.engine.scheduler.max_num_seqs;
  options.kv_cache_memory_bytes = args.engine.kv_cache_bytes;
  options.memory_utilization = args.memory_utilization;
  options.on_progress = args.on_progress;
  return options;
}

Result<RunningModel> start_model(const EngineArgs& args) {
  QUIRE_RETURN_IF_ERROR(check_scheduler(args.engine.scheduler));
  QUIRE_ASSIGN_OR_RETURN(const std::optional<Hardware> hardware, step_hardware(args));
  RunningModel model;
  if (args.shape.empty()) {
    QUIRE_ASSIGN_OR_RETURN(model.bundle, open_model(args.model));
  } else {
    model.bundle.name = args.shape;
  }
  QUIRE_ASSIGN_OR_RETURN(ModelExecutor made,
                         make_model_executor(args, model_runner_options(args, model.bundle)));
  model.plan = std::move(made.plan);
  model.max_model_len = static_cast<int32_t>(model.plan.limits.max_seq_len);
  EngineOptions options = args.engine;
  options.scheduler.max_model_len = model.max_model_len;
  QUIRE_RETURN_IF_ERROR(add_step_costs(args, hardware, model.bundle.name, model.plan, options));
  QUIRE_ASSIGN_OR_RETURN(
      model.engine, make_async_engine(std::move(options), std::move(made.executor),
                                      model.bundle.tokenizer, std::make_shared<SteadyClock>()));
  return model;
}

}  // namespace quire
