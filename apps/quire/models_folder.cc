#include "quire/models_folder.h"

#include <algorithm>
#include <utility>

#include "exec/memory/free_memory.h"
#include "facade/model_bundle.h"
#include "facade/speculation/speculative_config.h"
#include "quire/models_config.h"
#include "quire/serve_flags.h"
#include "quire/served_model.h"
#include "server/adapters/adapter_routes.h"

namespace quire::cli {
namespace {

// The memory plan never asks for more than this share of the free memory.
constexpr double kMaxShare = 0.95;

Status check_flags(const ServeFlags& flags) {
  const auto one = [](const char* name) {
    return invalid_argument(
        "{} is only for a server of one model: expected MODEL instead of --models-dir, or a line "
        "of --models-config",
        name);
  };
  const EngineArgs& engine = flags.engine;
  if (!engine.model.empty())
    return invalid_argument("expected a model or --models-dir, got both {} and {}", engine.model,
                            flags.models.directory);
  if (!engine.shape.empty()) return one("--shape");
  if (!flags.served_model_names.empty()) return one("--served-model-name");
  if (!engine.lora.modules.empty()) return one("--lora-modules");
  if (!flags.server.lora_dir.empty()) return one("--lora-dir");
  if (asks_for_drafts(engine.speculative_config)) return one("--speculative-config");
  if (!engine.kv_transfer_config.empty()) return one("--kv-transfer-config");
  if (!engine.kv_events_config.empty()) return one("--kv-events-config");
  if (!engine.step_log.empty()) return one("--step-log");
  if (!engine.chrome_trace.empty()) return one("--trace");
  if (engine.device == "cuda")
    return invalid_argument("--models-dir: expected --device cpu, got {}", engine.device);
  if (engine.ranks.size > 1)
    return invalid_argument("--models-dir: expected one process, got {} ranks", engine.ranks.size);
  return {};
}

// Returns a pointer to the engine that keeps the whole running model alive.
std::shared_ptr<AsyncEngine> with_its_model(std::shared_ptr<RunningModel> running) {
  AsyncEngine* const engine = running->engine.get();
  return {std::move(running), engine};
}

Result<server::ShelfModel> load(const ServeFlags& all, const server::FoundModel& found,
                                const std::vector<std::string>& names, int64_t bytes,
                                const std::function<void(double)>& on_progress) {
  QUIRE_ASSIGN_OR_RETURN(const ModelsConfig config, ModelsConfig::read(all.models.config));
  QUIRE_ASSIGN_OR_RETURN(ServeFlags flags, config.flags_of(found.name, all));
  flags.engine.model = found.path;
  flags.engine.device = "cpu";  // models of a folder share the host's memory
  flags.served_model_names = names;
  flags.engine.on_progress = [&on_progress](int64_t done_bytes, int64_t total_bytes) {
    if (total_bytes > 0)
      on_progress(static_cast<double>(done_bytes) / static_cast<double>(total_bytes));
  };
  const int64_t free_bytes = std::max<int64_t>(1, free_memory_bytes());
  flags.engine.memory_utilization =
      std::min(kMaxShare, static_cast<double>(bytes) / static_cast<double>(free_bytes));
  QUIRE_ASSIGN_OR_RETURN(RunningModel started, start_model(flags.engine));
  auto running = std::make_shared<RunningModel>(std::move(started));
  flags.server.reply_format = reply_format(flags, running->bundle);
  QUIRE_ASSIGN_OR_RETURN(ServedModel served, served_model(flags, *running));
  QUIRE_RETURN_IF_ERROR(server::check_adapter_names(served));
  const int64_t taken = running->plan.memory.total();
  served.engine = with_its_model(std::move(running));
  return server::ShelfModel{server::HostedModel::create(std::move(served), std::move(flags.server)),
                            taken};
}

}  // namespace

Result<std::shared_ptr<server::ModelShelf>> open_models_folder(const ServeFlags& flags) {
  QUIRE_RETURN_IF_ERROR(check_flags(flags));
  const ModelsFolderFlags& models = flags.models;
  server::ShelfOptions options{
      .directory = models.directory,
      .limits = {.max_loaded = models.max_loaded, .max_bytes = models.max_bytes},
      .load_timeout_us = models.load_timeout_s * 1'000'000};
  QUIRE_ASSIGN_OR_RETURN(options.aliases, server::parse_aliases(flags.model_aliases));
  options.find_adapters = [&flags]() -> Result<server::ModelAliases> {
    QUIRE_ASSIGN_OR_RETURN(const ModelsConfig config, ModelsConfig::read(flags.models.config));
    return config.adapters(flags);
  };
  if (models.keep_alive_s >= 0) options.keep_alive_us = models.keep_alive_s * 1'000'000;
  if (models.max_bytes == 0) {
    options.limits.max_bytes = static_cast<int64_t>(static_cast<double>(free_memory_bytes()) *
                                                    flags.engine.memory_utilization);
  }
  options.load = [&flags](const server::FoundModel& found, const std::vector<std::string>& names,
                          int64_t bytes, const std::function<void(double)>& on_progress) {
    return load(flags, found, names, bytes, on_progress);
  };
  return server::ModelShelf::create(std::move(options));
}

}  // namespace quire::cli
