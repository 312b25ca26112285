#include "quire/models_config.h"

#include <algorithm>
#include <vector>

#include "base/text_fields.h"
#include "quire/settings/settings.h"
#include "quire/vllm_flags.h"

namespace quire::cli {
namespace {

// Refuses flags that a single model of a folder cannot have.
Status check_flags(const ServeFlags& flags, const std::string& where) {
  const auto refuse = [&](const char* name, const char* why) {
    return invalid_argument("{}: {} {}", where, name, why);
  };
  const EngineArgs& engine = flags.engine;
  if (engine.device == "cuda") return refuse("device", "must be cpu for models of a folder");
  if (engine.ranks.size > 1) return refuse("nnodes", "must be 1 for models of a folder");
  for (const auto& [name, value] : {std::pair("kv-transfer-config", &engine.kv_transfer_config),
                                    std::pair("kv-events-config", &engine.kv_events_config)}) {
    if (!value->empty()) return refuse(name, "is only for a server of one model");
  }
  return {};
}

}  // namespace

Result<ModelsConfig> ModelsConfig::read(const std::string& path) {
  if (path.empty()) return ModelsConfig({}, {});
  Result<std::string> text = read_text(path, kMaxSettingsBytes);
  if (!text.ok()) return text.status().with_context("--models-config");
  Result<ModelSettings> models = parse_model_settings(*text, path);
  if (!models.ok()) return models.status().with_context("--models-config");
  return ModelsConfig(path, std::move(models).value());
}

Result<ServeFlags> ModelsConfig::flags_of(const std::string& model, const ServeFlags& flags) const {
  ServeFlags result = flags;
  const auto settings = models_.find(model);
  if (settings == models_.end()) return result;
  const std::string where = "--models-config: " + path_;
  CLI::App verb("the flags of a model", "a model");
  add_flags_of_model(verb, result);
  take_last_of_repeated(verb);
  std::vector<std::string> arguments;
  for (const FileSetting& setting : settings->second) {
    QUIRE_RETURN_IF_ERROR(
        append_setting(verb, setting, fmt::format("{}: line {}", where, setting.line), arguments));
  }
  std::reverse(arguments.begin(), arguments.end());  // the parser takes a vector in this order
  try {
    verb.parse(std::move(arguments));
  } catch (const CLI::ParseError& e) {
    return invalid_argument("{}: {}: {}", where, model, e.what());
  }
  QUIRE_RETURN_IF_ERROR(check_flags(result, fmt::format("{}: {}", where, model)));
  return result;
}

Result<server::ModelAliases> ModelsConfig::adapters(const ServeFlags& flags) const {
  server::ModelAliases adapters;
  for (const auto& [model, settings] : models_) {
    QUIRE_ASSIGN_OR_RETURN(const ServeFlags own, flags_of(model, flags));
    for (const NamedAdapter& adapter : own.engine.lora.modules) {
      const auto [place, is_new] = adapters.emplace(adapter.name, model);
      if (!is_new)
        return invalid_argument(
            "--models-config: {}: expected a different name for each adapter, got {} for both {} "
            "and {}",
            path_, adapter.name, place->second, model);
    }
  }
  return adapters;
}

}  // namespace quire::cli
