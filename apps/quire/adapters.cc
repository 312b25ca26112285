#include <fmt/format.h>

#include <boost/json.hpp>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "quire/commands.h"
#include "weights/adapters/lora_files.h"

namespace quire::cli {
namespace {

// "model.layers.3.mlp.down_proj" -> "down_proj".
std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

// Returns what kind of parameter the update changes, such as "down_proj". For a second parameter of
// a module, PEFT appends ".base_layer" to the name of the first.
std::string kind_of(const LoraModule& module) {
  constexpr std::string_view kBaseLayer = ".base_layer";
  std::string name = module.name;
  while (name.ends_with(kBaseLayer)) name.resize(name.size() - kBaseLayer.size());
  return last_part(name);
}

// Returns "4", or "4 to 16" when the values differ.
template <typename T>
std::string range_of(const std::set<T>& values) {
  const std::string first = fmt::format("{:g}", static_cast<double>(*values.begin()));
  if (values.size() == 1) return first;
  return fmt::format("{} to {:g}", first, static_cast<double>(*values.rbegin()));
}

void print_modules(const std::vector<LoraModule>& modules) {
  struct Kind {
    int64_t count = 0;
    std::set<int64_t> inputs, outputs;
  };
  std::map<std::string, Kind> kinds;
  for (const LoraModule& module : modules) {
    Kind& kind = kinds[kind_of(module)];
    kind.count += module.num_experts;
    kind.inputs.insert(module.num_inputs());
    kind.outputs.insert(module.num_outputs());
  }
  for (const auto& [name, kind] : kinds) {
    fmt::print("  {:<14} {:>4}, {} inputs, {} outputs\n", name, kind.count, range_of(kind.inputs),
               range_of(kind.outputs));
  }
}

void print_whole_modules(const std::vector<WholeModule>& modules) {
  if (modules.empty()) return;
  std::map<std::string, int64_t> kinds;
  for (const WholeModule& module : modules) ++kinds[last_part(module.name)];
  fmt::print("whole modules    {}\n", modules.size());
  for (const auto& [name, count] : kinds) fmt::print("  {:<14} {:>4}\n", name, count);
}

void print_adapter_json(const std::string& path, const LoraFiles& adapter) {
  boost::json::array modules;
  for (const LoraModule& module : adapter.modules()) {
    modules.push_back(boost::json::object{{"name", module.name},
                                          {"rank", module.rank},
                                          {"scale", module.scale},
                                          {"experts", module.num_experts},
                                          {"inputs", module.num_inputs()},
                                          {"outputs", module.num_outputs()}});
  }
  boost::json::array whole;
  for (const WholeModule& module : adapter.whole_modules()) whole.emplace_back(module.name);
  const AdapterConfig& config = adapter.config();
  const boost::json::object out{{"path", path},
                                {"kind", config.has_magnitudes() ? "dora" : "lora"},
                                {"base_model", config.base_model()},
                                {"num_parameters", adapter.num_parameters()},
                                {"digest", fmt::format("{}", adapter.digest())},
                                {"modules", std::move(modules)},
                                {"whole_modules", std::move(whole)}};
  fmt::print("{}\n", boost::json::serialize(out));
}

Status print_adapter(const std::string& path, bool as_json) {
  QUIRE_ASSIGN_OR_RETURN(const LoraFiles adapter, LoraFiles::open(path));
  if (as_json) {
    print_adapter_json(path, adapter);
    return {};
  }
  const AdapterConfig& config = adapter.config();
  std::set<int64_t> ranks;
  std::set<float> scales;
  for (const LoraModule& module : adapter.modules()) {
    ranks.insert(module.rank);
    scales.insert(module.scale);
  }
  fmt::print("adapter          {}\n", path);
  fmt::print("kind             {}{}{}\n", config.has_magnitudes() ? "DoRA" : "LoRA",
             config.is_rank_stabilized() ? ", rank-stabilized" : "",
             config.has_bias() ? ", with biases" : "");
  if (!config.base_model().empty()) fmt::print("trained on       {}\n", config.base_model());
  if (!ranks.empty()) {
    fmt::print("rank             {}\n", range_of(ranks));
    fmt::print("scale            {}\n", range_of(scales));
  }
  fmt::print("parameters       {}\n", adapter.num_parameters());
  fmt::print("digest           {}\n", adapter.digest());
  fmt::print("updates          {}\n", adapter.modules().size());
  print_modules(adapter.modules());
  print_whole_modules(adapter.whole_modules());
  return {};
}

}  // namespace

void add_adapters(CLI::App& app, int& exit_code) {
  CLI::App& verb = *app.add_subcommand(
      "adapters",
      "Check a LoRA adapter and show its rank, its scale and the modules that it changes");
  auto path = std::make_shared<std::string>();
  verb.add_option("PATH", *path, "Folder with adapter_config.json and adapter_model.safetensors")
      ->required();
  auto as_json = std::make_shared<bool>(false);
  verb.add_flag("--json", *as_json, "Print one line of JSON");
  verb.callback(
      [path, as_json, &exit_code] { exit_code = report(print_adapter(*path, *as_json)); });
}

}  // namespace quire::cli
