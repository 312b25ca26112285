#include "facade/model_bundle.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "base/log.h"
#include "chat/mistral_template.h"
#include "facade/builtin_model.h"
#include "facade/chat/sentence_texts_reader.h"
#include "facade/engines.h"
#include "facade/kv_cache/kv_cache_files.h"
#include "facade/kv_cache/kv_events.h"
#include "facade/kv_cache/kv_transfer_config.h"
#include "facade/model_executor.h"
#include "facade/parallel_args.h"
#include "facade/speculation/speculative_config.h"
#include "facade/step_costs.h"
#include "facade/tokenizer/load_tokenizer.h"
#include "models/vision/vision_config.h"
#include "ranks/rank_process.h"
#include "weights/adapters/lora_files.h"
#include "weights/adapters/task_adapters.h"

namespace quire {
namespace {

std::string model_name(const std::string& path) {
  if (path.empty()) return kBuiltinModelName;
  const std::filesystem::path normal = std::filesystem::path(path).lexically_normal();
  const std::string last =
      (normal.has_filename() ? normal : normal.parent_path()).filename().string();
  return last.empty() ? path : last;
}

// Returns the ids that end an answer: of generation_config.json, else of config.json, else the
// tokenizer's own EOS.
Result<GenerationConfig> read_generation_config(const ModelFiles& files,
                                                const Tokenizer* tokenizer) {
  GenerationConfig config;
  if (files.contains("generation_config.json")) {
    QUIRE_ASSIGN_OR_RETURN(const std::string_view text, files.text("generation_config.json"));
    QUIRE_ASSIGN_OR_RETURN(config, parse_generation_config(text, "generation_config.json"));
    if (const std::string dropped = drop_invalid_defaults(config.sampling); !dropped.empty()) {
      log_warn("generation_config.json: defaults out of bounds are left out: {}", dropped);
    }
  }
  if (files.contains("config.json")) {  // a malformed file is an error, needed or not
    QUIRE_ASSIGN_OR_RETURN(const std::string_view text, files.text("config.json"));
    QUIRE_ASSIGN_OR_RETURN(std::vector<TokenId> ids, parse_eos_token_ids(text, "config.json"));
    if (config.eos_token_ids.empty()) config.eos_token_ids = std::move(ids);
  }
  if (config.eos_token_ids.empty() && tokenizer != nullptr && tokenizer->eos_id()) {
    config.eos_token_ids.push_back(*tokenizer->eos_id());
  }
  return config;
}

// Returns the text of --chat-template, which is a file or the template itself.
Result<std::string> read_chat_template(const std::string& given) {
  constexpr std::uintmax_t kMaxBytes = 4 << 20;
  if (given.find("{{") != given.npos || given.find("{%") != given.npos) return given;
  std::error_code ec;
  const bool is_file = std::filesystem::is_regular_file(given, ec);
  std::ifstream file(given, std::ios::binary);
  if (!is_file || !file) {
    return invalid_argument("--chat-template: expected a file or a Jinja template, got {}", given);
  }
  if (std::filesystem::file_size(given, ec) > kMaxBytes) {
    return invalid_argument("--chat-template: expected at most {} bytes in {}", kMaxBytes, given);
  }
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (text.empty()) return invalid_argument("--chat-template: {} is empty", given);
  return text;
}

Result<ModelBundle> open_files(std::string name, ModelFiles model_files,
                               const std::string& chat_template) {
  ModelBundle bundle;
  bundle.name = std::move(name);
  bundle.files = std::make_shared<const ModelFiles>(std::move(model_files));
  QUIRE_ASSIGN_OR_RETURN(LoadedTokenizer loaded, load_tokenizer(*bundle.files));
  bundle.tokenizer = std::move(loaded.tokenizer);
  ModelChat::Sources templates;
  if (!chat_template.empty()) {
    QUIRE_ASSIGN_OR_RETURN(templates.instead, read_chat_template(chat_template));
  }
  templates.otherwise = mistral_chat_template(loaded.tekken_version).value_or("");
  QUIRE_ASSIGN_OR_RETURN(bundle.chat,
                         ModelChat::load(*bundle.files, bundle.tokenizer.get(), templates));
  QUIRE_ASSIGN_OR_RETURN(bundle.generation,
                         read_generation_config(*bundle.files, bundle.tokenizer.get()));
  QUIRE_ASSIGN_OR_RETURN(bundle.texts, read_sentence_texts(*bundle.files));
  return bundle;
}

// Adds the adapters that belong to the model to those that the flags name.
Status add_task_adapters(const ModelBundle& bundle, LoraArgs& lora) {
  if (bundle.files == nullptr) return {};
  QUIRE_ASSIGN_OR_RETURN(TaskAdapters tasks, read_task_adapters(*bundle.files));
  if (tasks.names.empty()) return {};
  // The default of the flag leaves room for later adapters. Without the flags there are none.
  if (!lora.enabled) lora.max_lora_rank = 0;
  lora.enabled = true;
  for (size_t i = 0; i < tasks.names.size(); ++i) {
    lora.modules.push_back({tasks.names[i],
                            task_adapter_path(bundle.files->source(), tasks.names[i]),
                            std::move(tasks.instructions[i])});
  }
  return {};
}

Status check_lora(const LoraArgs& lora) {
  if (!lora.enabled) return {};
  if (lora.max_loras < 1)
    return invalid_argument("--max-loras: expected at least 1, got {}", lora.max_loras);
  for (const NamedAdapter& module : lora.modules)
    QUIRE_RETURN_IF_ERROR(check_adapter_name(module.name).with_context("--lora-modules"));
  if (lora.max_cpu_loras == 0 || lora.max_cpu_loras >= lora.max_loaded()) return {};
  return invalid_argument(
      "--max-cpu-loras: expected at least {}, for --max-loras {} and {} of --lora-modules, got {}",
      lora.max_loaded(), lora.max_loras, lora.modules.size(), lora.max_cpu_loras);
}

// Plans memory for the highest rank, and for experts as far as the modules change them. For weights
// that modules replace, it is the sum of all and once more the largest; for modules with experts it
// is one more than there are: a new version may be read while the old one is in use.
Status set_lora_options(const LoraArgs& lora, ModelRunnerOptions& options) {
  options.max_lora_rank = lora.max_lora_rank;
  options.lora_memory_bytes = lora.memory_bytes;
  int64_t rank = 0, largest = 0;
  int32_t num_with_experts = 0;
  for (const NamedAdapter& module : lora.modules) {
    const Result<LoraFiles> files = LoraFiles::open(module.path);
    if (!files.ok()) return files.status().with_context("--lora-modules " + module.name);
    rank = std::max(rank, files->max_rank());
    num_with_experts += files->changes_experts() ? 1 : 0;
    options.lora_whole_elements += files->num_whole_elements();
    largest = std::max(largest, files->num_whole_elements());
  }
  options.lora_whole_elements += largest;
  options.max_expert_adapters = num_with_experts > 0 ? num_with_experts + 1 : 0;
  if (options.max_lora_rank == 0) options.max_lora_rank = std::max<int64_t>(rank, 1);
  return {};
}

// Loads the adapters; null without adapters.
Result<std::shared_ptr<AdapterRegistry>> load_adapters(const LoraArgs& lora,
                                                       std::shared_ptr<AsyncEngine> engine) {
  if (!lora.enabled) return std::shared_ptr<AdapterRegistry>();
  auto adapters = std::make_shared<AdapterRegistry>(
      [engine = std::move(engine)](const std::string& name, const std::string& path) {
        return engine->load_adapter(name, path);
      },
      lora.max_loaded());
  for (const NamedAdapter& module : lora.modules)
    QUIRE_RETURN_IF_ERROR(adapters->load(module).with_context("--lora-modules " + module.name));
  return adapters;
}

Status check_kv_files(const EngineArgs& args) {
  const bool has_files = !args.kv_cache_dir.empty();
  if (args.device == "cpu" && args.engine.kv_offload_bytes > 0 && !has_files) {
    return invalid_argument(
        "--kv-offload-memory: expected none on a CPU without --kv-cache-dir: the KV cache is in "
        "host memory already");
  }
  if (!has_files) return {};
  if (!args.engine.kv.enable_prefix_caching) {
    return invalid_argument(
        "--kv-cache-dir: expected prefix caching, which --no-enable-prefix-caching turns off");
  }
  return {};
}

Status check_kv_transfer(const EngineArgs& args) {
  if (args.kv_transfer_config.empty()) return {};
  QUIRE_RETURN_IF_ERROR(parse_kv_transfer_config(args.kv_transfer_config).status());
  if (!args.kv_cache_dir.empty()) return {};
  return invalid_argument(
      "--kv-transfer-config: expected --kv-cache-dir, the directory that servers share");
}

// Describes where KV is kept in files.
KvCacheFiles kv_cache_files(const EngineArgs& args, const ModelBundle& bundle) {
  const int64_t host_bytes = int64_t{args.device == "cpu" ? 512 : 4096} << 20;
  if (args.kv_cache_dir.empty()) return {};
  const int64_t asked = args.engine.kv_offload_bytes;
  return {.dir = args.kv_cache_dir,
          .capacity_bytes = args.kv_cache_dir_bytes,
          .host_bytes = asked > 0 ? asked : host_bytes,
          .num_engines = args.data_parallel_size,
          .num_ranks = ranks_per_stage(args),
          .files = bundle.files.get(),
          .shape = args.shape,
          .shape_weights = args.shape_weights,
          .isa = args.isa};
}

// Checks everything that can be checked without the model.
Status check_args(const EngineArgs& args) {
  SchedulerConfig config = args.engine.scheduler;
  if (config.max_model_len == 0) config.max_model_len = 1;  // the model's, which is not yet known
  QUIRE_RETURN_IF_ERROR(config.validate());
  if (!args.shape.empty() && !args.model.empty()) {
    return invalid_argument("expected a model or --shape, got {} and {}", args.model, args.shape);
  }
  if (!args.shape.empty() && !args.chat_template.empty()) {
    return invalid_argument("--chat-template: expected none with --shape, which has no tokenizer");
  }
  QUIRE_RETURN_IF_ERROR(check_parallel(args));
  QUIRE_RETURN_IF_ERROR(check_kv_files(args));
  QUIRE_RETURN_IF_ERROR(check_kv_transfer(args));
  QUIRE_RETURN_IF_ERROR(parse_kv_events_config(args.kv_events_config).status());
  return check_lora(args.lora);
}

Status check_text(const ModelBundle& bundle, RequiredText required) {
  if (required == RequiredText::kNone) return {};
  if (bundle.tokenizer == nullptr) {
    return not_found(
        "{}: the model has no tokenizer (tokenizer.json, tokenizer.model, …), so it cannot read or "
        "write text",
        bundle.name);
  }
  if (required == RequiredText::kChatTemplate && !bundle.has_chat_template()) {
    return not_found(
        "{}: the model has no chat template; give one with --chat-template, or continue texts with "
        "quire generate",
        bundle.name);
  }
  return {};
}

// Drafters of hidden states need the served model in one process with one engine.
Status check_hidden_states(const SpeculativeConfig& config, const EngineArgs& args) {
  if (!config.reads_hidden_states()) return {};
  if (config.method == SpeculativeMethod::kMedusa && args.device != "cpu") {
    return unimplemented("--speculative-config: medusa: expected --device cpu, got {}",
                         args.device);
  }
  const int32_t ranks = std::max(args.tensor_parallel_size, args.ranks.size);
  if (ranks == 1 && args.pipeline_parallel_size == 1 && args.data_parallel_size == 1) return {};
  return unimplemented(
      "--speculative-config: expected one rank, one stage and one engine for a drafter of hidden "
      "states, got {}, {} and {}",
      ranks, args.pipeline_parallel_size, args.data_parallel_size);
}

// Returns the settings of --speculative-config as far as they are known before the model is;
// nullopt: no drafts.
Result<std::optional<SpeculativeConfig>> drafting_of(const EngineArgs& args) {
  const std::string& text = args.speculative_config;
  if (text.empty()) return std::optional(default_speculative_config());
  if (!asks_for_drafts(text)) return std::optional<SpeculativeConfig>();
  QUIRE_ASSIGN_OR_RETURN(SpeculativeConfig config, parse_speculative_config(text));
  return std::optional(std::move(config));
}

// Whether an absent flag means default_speculative_config().
bool drafts_by_default(const RunningModel& model, const Executor& executor) {
  return model.plan.spec.has_head && !model.plan.kv.spec.uses(KvPool::kState) &&
         executor.max_steps_in_flight() == 1;
}

void set_drafting(const SpeculativeConfig& config, int32_t num_tokens, EngineOptions& options) {
  options.scheduler.num_speculative_tokens = num_tokens;
  options.scheduler.draft_planner.limits = config.limits;
  options.weigh_drafts = config.weigh_drafts;
}

// A file that was merely found beside the model may belong to another one: if it does not fit, the
// model is served without it.
Status choose_mmproj(const MmprojArgs& mmproj, ModelFiles& files) {
  if (!mmproj.enabled) return files.use_mmproj({});
  if (!mmproj.path.empty()) {
    QUIRE_RETURN_IF_ERROR(files.use_mmproj(mmproj.path).with_context("--mmproj"));
    return read_mmproj_vision(files).status().with_context("--mmproj");
  }
  const std::optional<std::string> name = files.mmproj_name();
  if (!name) return {};
  if (const Status status = read_mmproj_vision(files).status(); !status.ok()) {
    log_warn("no images are read: {}; --mmproj names the file that belongs to the model",
             status.message());
    return files.use_mmproj({});
  }
  log_info("images are read as {} says, which lies beside the model", *name);
  return {};
}

// Sets the `options` of KV outside of the cache: files, handovers and events.
Status set_kv_options(const EngineArgs& args, const KvCacheFiles& files, const ModelPlan& plan,
                      EngineOptions& options) {
  // Every rank of every engine has its own blocks; with files, add_kv_cache_files() sets their
  // number.
  options.kv_offload_bytes /= int64_t{args.data_parallel_size} * ranks_per_stage(args);
  QUIRE_RETURN_IF_ERROR(add_kv_cache_files(files, plan, options));
  QUIRE_ASSIGN_OR_RETURN(options.kv_handover, parse_kv_transfer_config(args.kv_transfer_config));
  return add_kv_events(args.kv_events_config, plan.kv.spec.block_size, options);
}

Result<RunningModel> start_on_cpu(EngineArgs args) {
  args.device = "cpu";
  return start_model(args);
}

}  // namespace

Result<ModelBundle> open_model(const std::string& path, const std::string& chat_template,
                               const MmprojArgs& mmproj) {
  if (path.empty()) return open_files(model_name(path), builtin_model_files(), chat_template);
  QUIRE_ASSIGN_OR_RETURN(ModelFiles files, ModelFiles::open(path));
  QUIRE_RETURN_IF_ERROR(choose_mmproj(mmproj, files));
  return open_files(model_name(path), std::move(files), chat_template);
}

ModelRunnerOptions model_runner_options(const EngineArgs& args, const ModelBundle& bundle) {
  ModelRunnerOptions options;
  options.files = bundle.files;
  options.shape = args.shape;
  options.shape_weights = args.shape_weights;
  options.dtype = args.dtype;
  options.kv_cache_dtype = args.kv_cache_dtype;
  options.activation_int8 = args.activation_int8;
  options.isa = args.isa;
  options.threads = threads_per_engine(args);
  options.num_replicas = args.data_parallel_size;
  options.pin_threads = args.pin_threads;
  options.weight_cache_dir = args.weight_cache_dir;
  options.block_size = args.block_size;
  options.state_block_size = args.state_block_size;
  options.max_image_tokens = args.max_image_tokens;
  options.max_model_len = args.engine.scheduler.max_model_len;
  options.max_num_batched_tokens = args.engine.scheduler.max_num_batched_tokens;
  options.max_num_seqs = args.engine.scheduler.max_running();
  options.kv_cache_memory_bytes = args.engine.kv_cache_bytes;
  options.memory_utilization = args.memory_utilization;
  // One more than can be named: a new version is read while the old one is in use.
  if (args.lora.enabled) options.max_adapters = args.lora.max_loaded() + 1;
  options.on_progress = args.on_progress;
  return options;
}

Status serve_rank(const EngineArgs& given) {
  EngineArgs args = given;
  args.device = device_of(given);
  QUIRE_RETURN_IF_ERROR(check_args(args));
  ModelBundle bundle;
  if (args.shape.empty()) {
    QUIRE_ASSIGN_OR_RETURN(bundle, open_model(args.model, args.chat_template, args.mmproj));
  }
  QUIRE_RETURN_IF_ERROR(add_task_adapters(bundle, args.lora));
  ModelRunnerOptions runner = model_runner_options(args, bundle);
  QUIRE_RETURN_IF_ERROR(set_expert_options(args, runner));
  QUIRE_RETURN_IF_ERROR(set_lora_options(args.lora, runner));
  runner.host_kv_bytes = kv_cache_files(args, bundle).host_bytes;
  return follow_first_rank(runner, rank_process(args));
}

Result<RunningModel> start_model(const EngineArgs& given) {
  EngineArgs args = given;
  args.device = device_of(given);
  QUIRE_RETURN_IF_ERROR(check_args(args));
  QUIRE_ASSIGN_OR_RETURN(StepHardware hardware, step_hardware(args));
  EngineOptions options = args.engine;
  QUIRE_ASSIGN_OR_RETURN(std::optional<SpeculativeConfig> drafting, drafting_of(args));
  RunningModel model;
  if (args.shape.empty()) {
    QUIRE_ASSIGN_OR_RETURN(model.bundle, open_model(args.model, args.chat_template, args.mmproj));
    QUIRE_RETURN_IF_ERROR(check_text(model.bundle, args.required_text));
  } else {
    model.bundle.name = args.shape;
  }
  QUIRE_RETURN_IF_ERROR(add_task_adapters(model.bundle, args.lora));
  if (args.lora.enabled) options.scheduler.max_loras = args.lora.max_loras;
  ModelRunnerOptions runner = model_runner_options(args, model.bundle);
  QUIRE_RETURN_IF_ERROR(set_expert_options(args, runner));
  QUIRE_RETURN_IF_ERROR(set_lora_options(args.lora, runner));
  std::vector<ModelDrafter> drafters;
  if (drafting) {
    QUIRE_RETURN_IF_ERROR(check_hidden_states(*drafting, args));
    QUIRE_ASSIGN_OR_RETURN(drafters, make_drafters(args, *drafting, runner));
    runner.hidden_rows = drafters.front().hidden_rows;
  }
  KvCacheFiles kv_files = kv_cache_files(args, model.bundle);
  runner.host_kv_bytes = kv_files.host_bytes;
  QUIRE_ASSIGN_OR_RETURN(ModelExecutor made, make_model_executor(args, runner));
  model.plan = std::move(made.plan);
  model.on_gpu = made.on_gpu;
  kv_files.gpus = std::move(made.gpus);
  if (args.device == "auto" && !made.on_gpu) {  // the GPU does not take the model
    args.device = "cpu";
    QUIRE_ASSIGN_OR_RETURN(hardware, step_hardware(args));
  }
  if (drafting && drafting->runs_a_model()) {
    QUIRE_RETURN_IF_ERROR(check_same_vocabulary(drafters.front(), model.plan.spec.vocab_size));
  }
  if (args.speculative_config.empty() && !drafts_by_default(model, *made.executors.front())) {
    drafters.clear();
  } else if (drafting) {
    set_drafting(*drafting, drafters.front().num_speculative_tokens, options);
  }
  model.max_model_len = static_cast<int32_t>(model.plan.limits.max_seq_len);
  options.scheduler.max_model_len = model.max_model_len;
  // A model that needs prompts whole computes each in one step.
  options.scheduler.max_num_batched_tokens = std::max(
      options.scheduler.max_num_batched_tokens, static_cast<int32_t>(model.plan.limits.max_tokens));
  QUIRE_RETURN_IF_ERROR(set_kv_options(args, kv_files, model.plan, options));
  QUIRE_ASSIGN_OR_RETURN(model.engine, start_engines(args, hardware, model, options,
                                                     std::move(made.executors), drafters));
  Result<std::shared_ptr<AdapterRegistry>> adapters = load_adapters(args.lora, model.engine);
  if (!adapters.ok() && model.on_gpu && goes_to_cpu(args, adapters.status())) {
    model = {};  // frees the GPU before the CPU's engine starts
    return start_on_cpu(given);
  }
  QUIRE_ASSIGN_OR_RETURN(model.adapters, std::move(adapters));
  model.idle_probe = make_idle_probe(args, hardware, model.bundle.name, model.plan, model.engine);
  return model;
}

}  // namespace quire
