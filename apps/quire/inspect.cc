#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <map>

#include "exec/model_runner.h"
#include "facade/model_bundle.h"
#include "models/model_config.h"
#include "quire/commands.h"
#include "quire/engine_flags.h"
#include "weights/files/tensor_source.h"

namespace quire::cli {
namespace {

namespace json = boost::json;

std::string human(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, kUnits[unit]);
}

void print_architecture(const ModelConfig& config) {
  int32_t num_windowed = 0, window = 0;
  for (const int32_t w : config.layer_windows) {
    num_windowed += w > 0 ? 1 : 0;
    window = std::max(window, w);
  }
  fmt::print("architecture     {} ({} layers, hidden {}, ffn {})\n", config.family->name,
             config.num_hidden_layers, config.hidden_size, config.intermediate_size);
  if (const ExpertsSpec& experts = config.experts.spec; experts.any()) {
    const auto layers =
        std::count(config.experts.layers.begin(), config.experts.layers.end(), true);
    fmt::print("experts          {} in {} of {} layers, {} per token, ffn {}",
               experts.router.num_experts, layers, config.num_hidden_layers,
               experts.router.experts_per_token, experts.intermediate_size);
    if (config.experts.shared_intermediate_size > 0)
      fmt::print(", beside an MLP of {}", config.experts.shared_intermediate_size);
    fmt::print("\n");
  }
  fmt::print("attention        {} query heads, {} KV heads, head dim {}\n",
             config.num_attention_heads, config.num_key_value_heads, config.head_dim);
  if (num_windowed > 0) {
    fmt::print("sliding window   {} tokens in {} of {} layers\n", window, num_windowed,
               config.num_hidden_layers);
  }
  fmt::print("context          {} tokens\n", config.max_model_len());
  fmt::print("vocabulary       {} tokens{}\n", config.vocab_size,
             config.tie_word_embeddings ? ", head tied to the embedding" : "");
  if (config.quantization.method() != QuantMethod::kNone) {
    fmt::print("quantization     {}\n", config.quantization.description());
  }
}

// Elements and bytes of the tensors of each type.
using TypeTotals = std::map<std::string, std::pair<int64_t, int64_t>>;

TypeTotals totals_by_type(const TensorSource& source) {
  TypeTotals by_type;
  for (const RawTensor& tensor : source.tensors()) {
    auto& [elements, bytes] = by_type[std::string(tensor.type_name)];
    elements += tensor.num_elements();
    bytes += static_cast<int64_t>(tensor.data.size());
  }
  return by_type;
}

void print_tensors(const TensorSource& source, int64_t num_parameters) {
  const TypeTotals by_type = totals_by_type(source);
  fmt::print("parameters       {} ({:.3f} B), stored in {} tensors\n", num_parameters,
             static_cast<double>(num_parameters) * 1e-9, source.tensors().size());
  for (const auto& [type, total] : by_type) {
    fmt::print("  {:<14} {} elements, {}\n", type, total.first,
               human(static_cast<double>(total.second)));
  }
}

// Prints what the layers attend to besides their own tokens.
void print_source(const ModelPlan& plan) {
  if (!plan.encoder) return;
  const CrossSpec& cross = plan.spec.cross;
  const std::vector<LayerSpec>& layers = plan.spec.layers;
  const auto num_readers = std::count_if(layers.begin(), layers.end(),
                                         [](const LayerSpec& layer) { return layer.reads_source; });
  const int64_t row_bytes = 2 * cross.kv_rows() * num_readers * size_bytes(plan.kv_dtype);
  fmt::print(
      "sources          up to {} rows, {} of keys and values each, {} at most\n"
      "encoder          {} layers, {} parameters\n",
      cross.max_source_len, human(static_cast<double>(row_bytes)),
      human(static_cast<double>(row_bytes * cross.max_source_len)), plan.encoder->layers.size(),
      plan.encoder->num_parameters());
}

// Prints which part of the model reads images, and which file it comes from.
void print_images(const ModelPlan& plan, const ModelFiles& files) {
  if (!plan.vision) return;
  const VisionSpec& vision = *plan.vision;
  if (vision.canvas.any()) {
    fmt::print(
        "images           one per request, on a canvas of up to {} tiles of {} x {} pixels\n",
        vision.canvas.max_tiles, vision.image_size, vision.image_size);
    return;
  }
  fmt::print(
      "images           up to {} tokens each; vision encoder of {} layers, {} parameters{}\n",
      vision.max_embeddings(), vision.encoder.layers.size(), vision.encoder.num_parameters(),
      files.mmproj_name() ? ", in " + *files.mmproj_name() : "");
}

// Prints how many requests of which length the KV blocks hold at once.
void print_what_fits(const MemoryPlan& plan, int64_t max_model_len) {
  if (plan.kv_cache <= 0) {
    fmt::print("does not fit: weights and workspace leave no memory for the KV cache\n");
    return;
  }
  const double tokens =
      static_cast<double>(plan.kv_cache) / std::max(plan.kv_bytes_per_token, 1e-9);
  fmt::print("requests whose KV fits at the same time:\n");
  for (int64_t length = 1024; length < max_model_len; length *= 4) {
    fmt::print("  {:>8} requests of {} tokens\n",
               static_cast<int64_t>(tokens / static_cast<double>(length)), length);
  }
  fmt::print("  {:>8} requests of {} tokens (the whole context)\n",
             static_cast<int64_t>(tokens / static_cast<double>(max_model_len)), max_model_len);
}

json::object architecture_json(const ModelConfig& config) {
  json::object out{{"architecture", config.family->name},
                   {"num_layers", config.num_hidden_layers},
                   {"hidden_size", config.hidden_size},
                   {"intermediate_size", config.intermediate_size},
                   {"num_attention_heads", config.num_attention_heads},
                   {"num_key_value_heads", config.num_key_value_heads},
                   {"head_dim", config.head_dim},
                   {"max_model_len", config.max_model_len()},
                   {"vocab_size", config.vocab_size},
                   {"ties_embeddings", config.tie_word_embeddings}};
  if (const ExpertsSpec& experts = config.experts.spec; experts.any()) {
    out["num_experts"] = experts.router.num_experts;
    out["experts_per_token"] = experts.router.experts_per_token;
  }
  if (config.quantization.method() != QuantMethod::kNone)
    out["quantization"] = config.quantization.description();
  return out;
}

json::object memory_json(const ModelPlan& plan) {
  const MemoryPlan& memory = plan.memory;
  return {{"dtype", to_string(plan.dtype)},    {"kv_cache_dtype", to_string(plan.kv_dtype)},
          {"weights_bytes", memory.weights},   {"adapters_bytes", memory.adapters},
          {"encoder_bytes", memory.vision},    {"workspace_bytes", memory.workspace()},
          {"kv_cache_bytes", memory.kv_cache}, {"kv_bytes_per_token", memory.kv_bytes_per_token},
          {"total_bytes", memory.total()},     {"free_bytes", memory.free_memory}};
}

void print_model_json(const ModelBundle& bundle, const TensorSource& source, int64_t num_parameters,
                      const ModelConfig& config, const ModelPlan& plan) {
  json::object out = architecture_json(config);
  out["model"] = bundle.name;
  out["num_parameters"] = num_parameters;
  json::object& types = out["tensors"].emplace_object();
  for (const auto& [type, total] : totals_by_type(source))
    types[type] = json::object{{"elements", total.first}, {"bytes", total.second}};
  out["has_tokenizer"] = bundle.tokenizer != nullptr;
  out["has_chat_template"] = bundle.has_chat_template();
  out["reads_images"] = plan.vision.has_value();
  out["memory"] = memory_json(plan);
  fmt::print("{}\n", json::serialize(out));
}

Status run_inspect(const EngineArgs& args, bool as_json) {
  QUIRE_ASSIGN_OR_RETURN(const ModelBundle bundle, open_model(args.model, {}, args.mmproj));
  QUIRE_ASSIGN_OR_RETURN(const TensorSource source, TensorSource::open(*bundle.files));
  QUIRE_ASSIGN_OR_RETURN(const ModelConfig config, read_model_config(*bundle.files, source));
  QUIRE_ASSIGN_OR_RETURN(const DecoderSpec spec,
                         make_decoder_spec(config, config.max_model_len(), DType::kF32));
  if (as_json) {
    QUIRE_ASSIGN_OR_RETURN(const ModelPlan plan,
                           ModelRunner::plan_only(model_runner_options(args, bundle)));
    print_model_json(bundle, source, spec.num_parameters(), config, plan);
    return {};
  }
  fmt::print("model            {}\n", bundle.name);
  print_architecture(config);
  print_tensors(source, spec.num_parameters());
  fmt::print("tokenizer        {}\n",
             bundle.tokenizer ? fmt::format("{} tokens", bundle.tokenizer->vocab_size()) : "none");
  fmt::print("chat template    {}\n", bundle.has_chat_template() ? "yes" : "none");
  QUIRE_ASSIGN_OR_RETURN(const ModelPlan plan,
                         ModelRunner::plan_only(model_runner_options(args, bundle)));
  print_source(plan);
  print_images(plan, *bundle.files);
  fmt::print("\nmemory plan ({} weights, {} KV cache)\n{}", to_string(plan.dtype),
             to_string(plan.kv_dtype), plan.memory.table());
  print_what_fits(plan.memory, plan.limits.max_seq_len);
  return {};
}

}  // namespace

void add_inspect(CLI::App& app, int& exit_code) {
  CLI::App& verb = *app.add_subcommand(
      "inspect", "Show a model's architecture, and the memory that serving it would take");
  auto args = std::make_shared<EngineArgs>();
  add_model_argument(verb, *args);
  add_engine_flags(verb, *args);
  auto as_json = std::make_shared<bool>(false);
  verb.add_flag("--json", *as_json, "Print one line of JSON, with sizes in bytes");
  verb.callback([args, as_json, &exit_code] { exit_code = report(run_inspect(*args, *as_json)); });
}

}  // namespace quire::cli
