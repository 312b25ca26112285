#include "quire/lora_flags.h"

#include <fmt/format.h>

#include <boost/json/parse.hpp>

#include "quire/flag_checks.h"

namespace quire::cli {
namespace {

constexpr const char* kGroup = "LoRA adapters";
constexpr int64_t kMostAdapters = 65'535;

Result<std::string> text_member(const boost::json::object& object, std::string_view name) {
  const boost::json::value* const value = object.if_contains(name);
  if (value != nullptr && value->is_string() && !value->get_string().empty())
    return std::string(value->get_string());
  return invalid_argument("expected a JSON object with name and path, got no text for {}", name);
}

Result<NamedAdapter> parse_json_module(const std::string& text) {
  boost::system::error_code ec;
  const boost::json::value value = boost::json::parse(text, ec);
  if (ec || !value.is_object())
    return invalid_argument("expected NAME=PATH or a JSON object with name and path, got {}", text);
  NamedAdapter module;
  QUIRE_ASSIGN_OR_RETURN(module.name, text_member(value.get_object(), "name"));
  QUIRE_ASSIGN_OR_RETURN(module.path, text_member(value.get_object(), "path"));
  return module;
}

// Adds one adapter, and reserves places and rank for exactly the adapters given so far.
void add_adapter(const std::string& path, LoraArgs& args) {
  args.modules.push_back({fmt::format("lora-{}", args.modules.size() + 1), path});
  args.enabled = true;
  args.max_loras = static_cast<int32_t>(args.modules.size());
  args.max_lora_rank = 0;
}

}  // namespace

Result<NamedAdapter> parse_lora_module(const std::string& text) {
  if (text.starts_with('{')) return parse_json_module(text);
  const size_t equals = text.find('=');
  if (equals == text.npos || equals == 0 || equals + 1 == text.size())
    return invalid_argument("expected NAME=PATH or a JSON object with name and path, got {}", text);
  return NamedAdapter{.name = text.substr(0, equals), .path = text.substr(equals + 1)};
}

void add_lora_flags(CLI::App& verb, LoraArgs& args) {
  verb.add_flag("--enable-lora,!--no-enable-lora", args.enabled,
                "Accept requests whose model is the name of a LoRA adapter (docs/adapters.md)")
      ->group(kGroup);
  const auto read = [&args](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      const Result<NamedAdapter> module = parse_lora_module(text);
      if (!module.ok()) throw CLI::ValidationError("--lora-modules", module.status().message());
      args.modules.push_back(*module);
    }
    args.enabled = true;
  };
  verb.add_option_function<std::vector<std::string>>(
          "--lora-modules", read,
          "Adapters to load at the start, each NAME=PATH or {\"name\":…,\"path\":…}; implies "
          "--enable-lora")
      ->type_name("NAME=PATH")
      ->group(kGroup);
  verb.add_option(
          "--max-loras", args.max_loras,
          "Largest number of different adapters in one step; requests for others wait their turn")
      ->check(in_range(1, kMostAdapters))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--max-cpu-loras", args.max_cpu_loras,
                  "Largest number of adapters in memory, which is GPU memory on a GPU; 0: the "
                  "larger of --max-loras and the number of --lora-modules")
      ->check(in_range(0, kMostAdapters))
      ->group(kGroup);
  verb.add_option("--max-lora-rank", args.max_lora_rank,
                  "Largest rank of all adapters; memory is planned for it")
      ->check(in_range(1, 16'384))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option(
          "--lora-memory", args.memory_bytes,
          "Memory for adapters, such as 2GiB; 0: enough for adapters of every linear layer with "
          "the largest rank, and for the experts and modules that --lora-modules change")
      ->transform(byte_size())
      ->type_name("BYTES")
      ->group(kGroup);
}

void add_lora_path_flag(CLI::App& verb, LoraArgs& args) {
  verb.add_option_function<std::string>(
          "--lora", [&args](const std::string& path) { add_adapter(path, args); },
          "Folder of a LoRA adapter of the model")
      ->type_name("PATH")
      ->group(kGroup);
}

std::string only_adapter(const LLM& llm) {
  const std::vector<std::string> names = llm.adapters();
  return names.empty() ? std::string() : names.front();
}

void add_lora_paths_flag(CLI::App& verb, LoraArgs& args) {
  const auto read = [&args](const std::vector<std::string>& paths) {
    for (const std::string& path : paths) add_adapter(path, args);
  };
  verb.add_option_function<std::vector<std::string>>(
          "--lora", read,
          "Folder of a LoRA adapter; may be given several times. Measures with and without "
          "adapters; requests use the adapters in turn, and one given twice counts as two")
      ->type_name("PATH")
      ->group(kGroup);
}

}  // namespace quire::cli
