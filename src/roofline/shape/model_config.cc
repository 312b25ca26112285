// Parses a Hugging Face config.json into a ModelShape.
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "roofline/hardware/json_fields.h"
#include "roofline/shape/model_shape.h"

namespace quire {
namespace {

constexpr size_t kMaxConfigBytes = size_t{4} << 20;
constexpr int64_t kMaxLayers = 4096;

template <size_t N>
bool contains(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Families whose config.json describes their layers by the names that are read here. In other
// families these names may have another meaning, or layers may have parts that no field describes.
constexpr std::string_view kKnown =
    " afmoe apertus arcee aya_vision baichuan bailing_moe bert bitnet bloom camembert chatglm "
    "codegen cohere cohere2 cwm deepseek deepseek_v2 deepseek_v3 deepseek_v32 deepseek_vl_v2 "
    "distilbert dots1 ernie4_5 ernie4_5_moe exaone exaone4 exaone_moe falcon gemma gemma2 "
    "gemma3 gemma3_text gemma4 gemma4_text glm glm4 glm4_moe glm4_moe_lite glm4v glm4v_moe "
    "gpt2 gpt_bigcode gpt_neo gpt_neox gpt_oss gptj granite granitemoe granitemoehybrid "
    "granitemoeshared helium hunyuan_v1_dense hunyuan_v1_moe hy_v3 internlm internlm2 "
    "internlm3 internvl internvl_chat jais jais2 kimi_k2 kimi_vl llama llama4 llama4_text "
    "llava llava_next minicpm minicpm3 minimax_m2 ministral ministral3 mistral mistral3 "
    "mixtral modernbert mpnet mpt nemotron nomic_bert olmo olmo2 olmo3 olmoe opt persimmon phi "
    "phi3 phi3_v "
    "phi4mm phimoe pixtral qwen qwen2 qwen2_5_vl qwen2_5_vl_text qwen2_moe qwen2_vl "
    "qwen2_vl_text qwen3 qwen3_moe qwen3_vl qwen3_vl_moe qwen3_vl_moe_text qwen3_vl_text "
    "roberta seed_oss smollm3 solar_open stablelm stablelm_alpha stablelm_epoch starcoder2 "
    "vaultgemma xglm xlm-roberta ";
// Families whose feed-forward part has no gate: two matrices.
constexpr std::array<std::string_view, 20> kPlainMlp = {
    "gpt2",    "gpt_neo",        "gpt_neox", "gptj",    "gpt_bigcode", "opt",      "bloom",
    "falcon",  "starcoder2",     "phi",      "mpt",     "bert",        "nemotron", "xglm",
    "codegen", "stablelm_alpha", "arcee",    "apertus", "jais2",       "mpnet"};
// Families whose config leaves tie_word_embeddings out if it is true.
constexpr std::array<std::string_view, 20> kTiedByDefault = {
    "gemma",   "gemma2",      "gemma3",   "gemma3_text", "gpt2",        "bloom",      "opt",
    "cohere",  "gpt_bigcode", "falcon",   "mpt",         "smollm3",     "starcoder2", "ernie4_5",
    "cohere2", "minicpm",     "minicpm3", "gemma4",      "gemma4_text", "vaultgemma"};
// Families whose layers, or some of them, have a state instead of keys and values, or parts that
// are not read here.
constexpr std::array<std::string_view, 18> kServedAlone = {
    "lfm2",        "lfm2_moe",         "qwen3_next",  "qwen3_5",   "qwen3_5_text",
    "qwen3_5_moe", "qwen3_5_moe_text", "bamba",       "falcon_h1", "nemotron_h",
    "mamba",       "falcon_mamba",     "mamba2",      "jamba",     "zamba2",
    "kimi_linear", "gemma3n",          "gemma3n_text"};
// Families in which every fourth layer sees all tokens and the others have sliding windows.
constexpr std::array<std::string_view, 7> kEveryFourthIsFull = {
    "cohere2", "olmo3", "exaone4", "exaone_moe", "afmoe", "llama4", "llama4_text"};

bool is_known(const std::string& family) {
  return !family.empty() && family.find(' ') == family.npos &&
         kKnown.find(" " + family + " ") != kKnown.npos;
}

NumberFormat storage_format(const JsonFields& config) {
  const std::string_view key = config.has("torch_dtype") ? "torch_dtype" : "dtype";
  const std::string name = config.string(key, "bfloat16");
  const size_t dot = name.rfind('.');  // "torch.bfloat16"
  const auto format = parse_number_format(name.substr(dot == name.npos ? 0 : dot + 1));
  if (!format) {
    config.fail(
        fmt::format("{}: expected bfloat16, float16, float32 or the name of another format, got {}",
                    key, name));
  }
  return format.value_or(NumberFormat{});
}

// Returns the format of groups whose scale and zero point are counted with their weights.
NumberFormat grouped(int64_t bits, int64_t group_size) {
  const double group = group_size > 0 ? static_cast<double>(group_size) : 4096.0;
  return {static_cast<double>(bits) + (16.0 + static_cast<double>(bits)) / group, MathType::kBf16};
}

// compressed-tensors writes {"config_groups": {"group_0": {"weights": {"num_bits": 4, "type":
// "int"}, "input_activations": null
// {…}}}}.
NumberFormat compressed_format(const JsonFields& quantization, NumberFormat stored) {
  const auto groups = quantization.child("config_groups");
  if (!groups || groups->object().empty()) return stored;
  const auto first = groups->child(groups->object().begin()->key());
  const auto weights = first ? first->child("weights") : std::nullopt;
  if (!weights) return stored;
  const int64_t bits = weights->integer({"num_bits"}, 8, 1, 16);
  const int64_t group_size = weights->integer({"group_size"}, 128, -1);
  const bool activations = first->has("input_activations");
  if (weights->string("type") != "float") {
    return activations && bits == 8 ? NumberFormat{8, MathType::kInt8} : grouped(bits, group_size);
  }
  const std::string strategy = weights->string("strategy");
  if (bits == 8 && activations && (strategy == "channel" || strategy == "block")) {
    return *parse_number_format(strategy == "block" ? "fp8_block" : "fp8_channel");
  }
  // NVFP4 and MX have a scale of 8 bits per 16 or 32 weights; in larger groups of floats, scales
  // are nearly nothing.
  constexpr int64_t kMostMicroScaled = 32;
  const bool micro_scaled = group_size > 0 && group_size <= kMostMicroScaled;
  const MathType math = !activations ? MathType::kBf16
                        : bits <= 4  ? MathType::kFp4
                                     : MathType::kFp8;
  return {static_cast<double>(bits) + (micro_scaled ? 8.0 / static_cast<double>(group_size) : 0.0),
          math};
}

NumberFormat quantized_format(const JsonFields& quantization, NumberFormat stored) {
  const std::string method = quantization.string("quant_method");
  if (method == "compressed-tensors") return compressed_format(quantization, stored);
  if (method == "fp8" || method == "fbgemm_fp8") {
    const bool by_channel = method == "fbgemm_fp8";
    return *parse_number_format(quantization.has("weight_block_size") ? "fp8_block"
                                : by_channel                          ? "fp8_channel"
                                                                      : "fp8");
  }
  if (method == "gptq" || method == "awq" || method == "auto-round") {
    return grouped(quantization.integer({"bits", "w_bit"}, 4, 1, 16),
                   quantization.integer({"group_size", "q_group_size"}, 128, -1));
  }
  if (method == "bitsandbytes") {
    return quantization.boolean("load_in_8bit", false) ? *parse_number_format("w8a16")
                                                       : *parse_number_format("nf4");
  }
  if (method == "modelopt") {
    const std::string algorithm = quantization.string("quant_algo", "FP8");
    if (algorithm.find("FP4") != std::string::npos) return *parse_number_format("nvfp4");
    if (algorithm.find("FP8") == std::string::npos) {
      quantization.fail(fmt::format("quant_algo: expected FP8 or NVFP4, got {}", algorithm));
    }
    return *parse_number_format("fp8");
  }
  const std::optional<NumberFormat> named = parse_number_format(method);
  if (!named && !method.empty()) {
    quantization.fail(fmt::format(
        "quant_method: expected awq, gptq, fp8, compressed-tensors, modelopt, bitsandbytes or the "
        "name of a format, got {}",
        method));
  }
  return named.value_or(stored);
}

void read_formats(const JsonFields& config, ModelShape& model) {
  const NumberFormat stored = storage_format(config);
  model.weights = model.expert_weights = model.head_weights = stored;
  if (stored.bits > 16) model.activations = model.kv = stored;
  const auto quantization = config.child("quantization_config");
  if (!quantization) return;
  const NumberFormat format = quantized_format(*quantization, stored);
  model.expert_weights = format;
  // In gpt-oss only the experts are MXFP4.
  if (quantization->string("quant_method") != "mxfp4") model.weights = format;
}

AttentionShape read_attention(const JsonFields& config, int64_t hidden_size) {
  AttentionShape attention;
  const auto dimension = [&](std::initializer_list<std::string_view> keys,
                             std::optional<int64_t> fallback, int64_t min = 1) {
    return static_cast<int32_t>(config.integer(keys, fallback, min, int64_t{1} << 20));
  };
  attention.num_heads = dimension({"num_attention_heads", "n_head", "n_heads", "num_heads"}, {});
  if (config.has("kv_lora_rank")) {
    attention.latent = true;
    attention.mla = {.q_lora_rank = dimension({"q_lora_rank"}, 0, 0),
                     .kv_lora_rank = dimension({"kv_lora_rank"}, {}),
                     .qk_nope_head_dim = dimension({"qk_nope_head_dim"}, 128, 0),
                     .qk_rope_head_dim = dimension({"qk_rope_head_dim"}, 64, 0),
                     .v_head_dim = dimension({"v_head_dim"}, 128)};
    return attention;
  }
  const bool one_kv_head =
      config.boolean("multi_query", false) && !config.boolean("new_decoder_architecture", false);
  attention.num_kv_heads =
      one_kv_head
          ? 1
          : dimension({"num_key_value_heads", "num_kv_heads", "n_head_kv"}, attention.num_heads);
  attention.head_dim = dimension(
      {"head_dim", "attention_head_dim"},
      std::max<int64_t>(1, attention.num_heads > 0 ? hidden_size / attention.num_heads : 1));
  return attention;
}

// Returns how many tokens each layer sees; 0: all.
std::vector<int32_t> read_windows(const JsonFields& config, std::string_view family,
                                  int64_t num_layers) {
  std::vector<int32_t> windows(static_cast<size_t>(num_layers), 0);
  const auto window =
      static_cast<int32_t>(config.integer({"sliding_window", "attention_chunk_size"}, 0));
  const std::vector<std::string> types = config.strings("layer_types");
  if (!types.empty() && types.size() != windows.size()) {
    config.fail(fmt::format("layer_types: expected {} entries, got {}", num_layers, types.size()));
    return windows;
  }
  if (!types.empty()) {
    for (size_t i = 0; i < types.size(); ++i) {
      if (types[i] == "sliding_attention" || types[i] == "chunked_attention") {
        windows[i] = window;
      } else if (types[i] != "full_attention" && types[i] != "attention") {
        config.fail(
            fmt::format("layer_types: expected full or sliding attention, got {}", types[i]));
        return windows;
      }
    }
    return windows;
  }
  if (window == 0 || !config.boolean("use_sliding_window", true)) return windows;
  // Every default_pattern-th layer sees all tokens.
  const int64_t default_pattern = family == "gemma2" || family == "gpt_oss" ? 2
                                  : family.substr(0, 6) == "gemma3"         ? 6
                                  : family.substr(0, 6) == "gemma4"         ? 6
                                  : contains(kEveryFourthIsFull, family)    ? 4
                                                                            : 0;
  const int64_t pattern =
      config.integer({"sliding_window_pattern", "_sliding_window_pattern"}, default_pattern);
  const int64_t first =
      family.substr(0, 4) == "qwen" ? config.integer({"max_window_layers"}, 0) : 0;
  for (int64_t i = first; i < num_layers; ++i) {
    if (pattern == 0 || (i + 1) % pattern != 0) windows[static_cast<size_t>(i)] = window;
  }
  return windows;
}

struct FfnLayers {
  FfnShape dense;
  FfnShape sparse;
  std::vector<bool> is_sparse;  // by layer
};

// Returns which layers have routed experts, by DeepSeek's first_k_dense_replace and moe_layer_freq,
// Qwen's decoder_sparse_step and mlp_only_layers, or Llama 4's interleave_moe_layer_step.
std::vector<bool> read_sparse_layers(const JsonFields& config, int64_t num_layers) {
  std::vector<bool> sparse(static_cast<size_t>(num_layers));
  const int64_t first =
      config.integer({"first_k_dense_replace", "moe_layer_start_index", "num_dense_layers"}, 0);
  const bool listed =
      config.has("moe_layer_freq") && config.object().at("moe_layer_freq").is_array();
  const int64_t frequency = listed ? 1 : config.integer({"moe_layer_freq"}, 1, 1);
  const int64_t step = config.integer({"decoder_sparse_step", "interleave_moe_layer_step"}, 1, 1);
  const std::vector<int64_t> mask =
      listed ? config.integers("moe_layer_freq") : std::vector<int64_t>();
  // GLM-4.7-Flash gives the kind of each layer.
  const std::vector<std::string> types = config.strings("mlp_layer_types");
  const std::vector<int64_t> dense_layers = config.integers("mlp_only_layers");
  for (int64_t i = 0; i < num_layers; ++i) {
    const auto index = static_cast<size_t>(i);
    const bool named = types.empty() || (index < types.size() && types[index] == "sparse");
    const bool chosen = named && (!listed || (index < mask.size() && mask[index] != 0));
    sparse[index] = chosen && i >= first && i % frequency == 0 && (i + 1) % step == 0 &&
                    std::find(dense_layers.begin(), dense_layers.end(), i) == dense_layers.end();
  }
  return sparse;
}

FfnLayers read_ffn(const JsonFields& config, std::string_view family, int64_t hidden_size,
                   int64_t num_layers) {
  constexpr int64_t kMaxFfn = int64_t{1} << 24;
  FfnLayers layers;
  FfnShape& dense = layers.dense;
  dense.num_matrices = contains(kPlainMlp, family) ? 2 : 3;
  // Gemma 4 has a field for models with experts, which are beside an MLP in every layer.
  const bool is_gemma4 = family.substr(0, 6) == "gemma4";
  const int64_t num_experts =
      is_gemma4 && !config.boolean("enable_moe_block", false)
          ? 0
          : config.integer(
                {"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"}, 0);
  const int64_t ratio = config.integer({"expansion_ratio"}, 4, 1, 1024);
  const std::optional<int64_t> plain_default =
      dense.num_matrices == 2 ? std::optional<int64_t>(ratio * hidden_size) : std::nullopt;
  const int64_t stated = config.integer(
      {"intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "moe_intermediate_size"},
      plain_default, 1, kMaxFfn);
  dense.intermediate_size =
      static_cast<int32_t>(config.integer({"intermediate_size_mlp"}, stated, 1, kMaxFfn));
  if (num_experts <= 1) {
    layers.is_sparse.assign(static_cast<size_t>(num_layers), false);
    return layers;
  }
  FfnShape& sparse = layers.sparse;
  sparse.num_matrices = dense.num_matrices;
  sparse.num_experts = static_cast<int32_t>(num_experts);
  sparse.experts_per_token = static_cast<int32_t>(config.integer(
      {"num_experts_per_tok", "num_experts_per_token", "moe_topk", "top_k_experts", "moe_k"}, 1,
      1));
  sparse.expert_intermediate_size =
      static_cast<int32_t>(config.integer({"moe_intermediate_size"}, stated, 1, kMaxFfn));
  const int64_t num_shared =
      config.integer({"n_shared_experts", "num_shared_experts", "moe_num_shared_experts"},
                     family == "llama4_text" ? 1 : 0, 0, 4096);
  const bool has_dense_beside = is_gemma4 || family == "hunyuan_v1_moe";
  sparse.shared_intermediate_size = static_cast<int32_t>(config.integer(
      {"shared_expert_intermediate_size", "shared_intermediate_size"},
      has_dense_beside ? stated : std::min(kMaxFfn, num_shared * sparse.expert_intermediate_size),
      0, kMaxFfn));
  layers.is_sparse = read_sparse_layers(config, num_layers);
  return layers;
}

// Gemma 4: layers that see all tokens have other heads, and the last layer is one of them; layers
// that use the keys and values of others may have MLPs of twice the width.
struct Gemma4Layers {
  AttentionShape full;
  int64_t first_wide = 0;  // index of a layer
};

Gemma4Layers read_gemma4(const JsonFields& config, const AttentionShape& sliding,
                         std::vector<int32_t>& windows) {
  windows.back() = 0;
  const auto num_layers = static_cast<int64_t>(windows.size());
  Gemma4Layers layers{.full = sliding, .first_wide = num_layers};
  layers.full.head_dim = static_cast<int32_t>(config.integer({"global_head_dim"}, 512, 1, 1 << 20));
  if (config.boolean("attention_k_eq_v", false)) {
    layers.full.num_kv_heads = static_cast<int32_t>(
        config.integer({"num_global_key_value_heads"}, sliding.num_kv_heads, 1, 1 << 20));
  }
  if (const auto shapes = config.child("per_layer_config")) {
    if (const auto shape = shapes->child(std::to_string(num_layers - 1))) {
      layers.full.head_dim =
          static_cast<int32_t>(shape->integer({"head_dim"}, sliding.head_dim, 1, 1 << 20));
      layers.full.num_kv_heads = static_cast<int32_t>(
          shape->integer({"num_key_value_heads"}, sliding.num_kv_heads, 1, 1 << 20));
    }
  }
  if (config.boolean("use_double_wide_mlp", false))
    layers.first_wide -= config.integer({"num_kv_shared_layers"}, 0, 0, num_layers);
  return layers;
}

void add_layer(ModelShape& model, const AttentionShape& attention, const FfnShape& ffn) {
  const LayerGroup layer{.num_layers = 1, .attention = attention, .ffn = ffn, .state = {}};
  for (LayerGroup& group : model.groups) {
    if (group.is_like(layer)) {
      ++group.num_layers;
      return;
    }
  }
  model.groups.push_back(layer);
}

// Returns the fields of the decoder: at the top, or nested in a model of several parts.
JsonFields decoder_fields(const JsonFields& top) {
  JsonFields config = top;
  for (const std::string_view nested : {"text_config", "llm_config", "language_config"}) {
    if (const auto child = top.child(nested)) config = *child;
  }
  return config;
}

ModelShape read_sizes(const JsonFields& top, const JsonFields& config, std::string_view family) {
  ModelShape model;
  model.name = top.string("_name_or_path", family);
  model.hidden_size = config.integer({"hidden_size", "n_embd", "d_model", "dim", "model_dim"}, {},
                                     1, int64_t{1} << 24);
  model.vocab_size = config.integer({"vocab_size", "padded_vocab_size"}, {}, 1, int64_t{1} << 24);
  model.max_model_len =
      config.integer({"max_position_embeddings", "n_positions", "n_ctx", "max_seq_len"}, 4096, 1);
  // In a model of several parts, tied heads are given at the top, whatever the decoder's part says.
  model.tied_head =
      top.boolean("tie_word_embeddings",
                  config.boolean("tie_word_embeddings", contains(kTiedByDefault, family)));
  read_formats(config, model);
  if (!config.has("quantization_config") && top.has("quantization_config"))
    read_formats(top, model);
  return model;
}

}  // namespace

Result<ModelShape> parse_model_sizes(std::string_view config_json) {
  QUIRE_ASSIGN_OR_RETURN(const boost::json::object object,
                         parse_json_object(config_json, "config.json", kMaxConfigBytes));
  Status status;
  const JsonFields top(object, "config.json", status);
  const JsonFields config = decoder_fields(top);
  ModelShape model = read_sizes(top, config, config.string("model_type", top.string("model_type")));
  QUIRE_RETURN_IF_ERROR(status);
  return model;
}

Result<ModelShape> parse_model_shape(std::string_view config_json) {
  QUIRE_ASSIGN_OR_RETURN(const boost::json::object object,
                         parse_json_object(config_json, "config.json", kMaxConfigBytes));
  Status status;
  const JsonFields top(object, "config.json", status);
  const JsonFields config = decoder_fields(top);
  const std::string family = config.string("model_type", top.string("model_type"));
  if (contains(kServedAlone, family)) {
    return unimplemented(
        "config.json: model_type: {} has layers of more than attention and MLP, and only where "
        "Quire serves it as configured it has a cost",
        family);
  }

  ModelShape model = read_sizes(top, config, family);
  const int64_t num_layers =
      config.integer({"num_hidden_layers", "n_layer", "n_layers", "num_layers"}, {}, 1, kMaxLayers);
  AttentionShape attention = read_attention(config, model.hidden_size);
  std::vector<int32_t> windows = read_windows(config, family, num_layers);
  FfnLayers ffn = read_ffn(config, family, model.hidden_size, num_layers);
  QUIRE_RETURN_IF_ERROR(status);
  if (!is_known(family)) {
    return unimplemented(
        "config.json: model_type: expected a family whose layers are known, such as llama or "
        "qwen3_moe, got '{}'",
        family);
  }
  Gemma4Layers gemma4{.full = attention, .first_wide = num_layers};
  if (family.substr(0, 6) == "gemma4") gemma4 = read_gemma4(config, attention, windows);
  for (size_t i = 0; i < static_cast<size_t>(num_layers); ++i) {
    AttentionShape own = windows[i] == 0 ? gemma4.full : attention;
    own.sliding_window = windows[i];
    if (static_cast<int64_t>(i) == gemma4.first_wide) ffn.dense.intermediate_size *= 2;
    add_layer(model, own, ffn.is_sparse[i] ? ffn.sparse : ffn.dense);
  }
  QUIRE_RETURN_IF_ERROR(status);
  if (const Status valid = model.validate(); !valid.ok()) return valid.with_context("config.json");
  return model;
}

}  // namespace quire
