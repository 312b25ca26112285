#include "models/model_config.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>

#include "models/config_fields.h"
#include "models/pooling_config.h"
#include "models/text_encoder.h"

namespace quire {
namespace {

constexpr int64_t kMaxConfigBytes = int64_t{16} << 20;
constexpr IntRange kWidth{1, int64_t{1} << 20};
constexpr IntRange kVocab{1, int64_t{1} << 24};
constexpr IntRange kLayers{1, 4096};
constexpr IntRange kHeads{1, 4096};
constexpr IntRange kHeadDim{2, kMaxAttentionHeadDim};

std::optional<int64_t> nonzero(int64_t value) {
  return value == 0 ? std::nullopt : std::optional<int64_t>(value);
}

struct ActivationName {
  std::string_view name;
  Activation activation;
};
constexpr ActivationName kActivations[] = {
    {"silu", Activation::kSilu},
    {"swish", Activation::kSilu},
    {"gelu_new", Activation::kGeluTanh},
    {"gelu_pytorch_tanh", Activation::kGeluTanh},
    {"gelu_fast", Activation::kGeluTanh},
    {"gelu_accurate", Activation::kGeluTanh},
    {"gelu_python_tanh", Activation::kGeluTanh},
    {"gelu", Activation::kGeluErf},
    {"gelu_python", Activation::kGeluErf},
    {"relu", Activation::kRelu},
    {"relu2", Activation::kRelu2},
    {"quick_gelu", Activation::kQuickGelu},
    {"tanh", Activation::kTanh},
    {"xielu", Activation::kXielu},
};

void read_activation(const ConfigReader& reader, ModelConfig& config) {
  const std::string name = reader.string("hidden_act", config.family->defaults.activation);
  // The activation's parameters are stored only by Apertus.
  const bool has_xielu = config.family->defaults.activation == "xielu";
  for (const ActivationName& known : kActivations) {
    if (known.name == name && (known.activation != Activation::kXielu || has_xielu)) {
      config.activation = known.activation;
      return;
    }
  }
  std::string list;
  for (const ActivationName& known : kActivations)
    list.append(list.empty() ? "" : ", ").append(known.name);
  reader.fail(fmt::format("hidden_act: expected one of {}, got {}", list, name));
}

// This field is informative, because each weight states its own type; but a file with an unknown
// type cannot be what it claims to be.
void check_stored_type(const ConfigReader& reader) {
  constexpr std::string_view kKnown[] = {"auto",    "float",   "half", "double", "bfloat16",
                                         "float16", "float32", "int8", "uint8",  "float64"};
  for (const std::string_view key : {"torch_dtype", "dtype"}) {
    const std::string given = reader.string(key, "auto");
    std::string_view name = given;
    constexpr std::string_view kModule = "torch.";
    if (name.starts_with(kModule)) name.remove_prefix(kModule.size());
    const bool known = std::find(std::begin(kKnown), std::end(kKnown), name) != std::end(kKnown) ||
                       name.starts_with("float8_") || name.starts_with("float4_");
    if (known) continue;
    reader.fail(
        fmt::format("{}: expected bfloat16, float16, float32 or another type, got {}", key, given));
  }
}

bool has_bias(BiasRule rule, bool configured) {
  return rule == BiasRule::kAlways || (rule == BiasRule::kConfig && configured);
}

// Sets what the family says of every layer, before its read_more().
void read_block(const ConfigReader& reader, ModelConfig& config) {
  const Family& family = *config.family;
  const bool attention_bias = reader.boolean("attention_bias", family.defaults.attention_bias);
  config.qkv_bias = has_bias(family.qkv_bias, attention_bias);
  config.o_bias = has_bias(family.o_bias, attention_bias);
  config.mlp_bias = has_bias(family.mlp_bias, reader.boolean("mlp_bias", false));
  config.gated_mlp = family.gated_mlp;
  config.block = family.block;
  config.qk_norm = family.qk_norm;
  config.positions = family.positions;
  config.head_bias = family.head_bias;
  // Decoders that were turned into embedders say so here (gte-Qwen2).
  config.is_bidirectional = family.is_bidirectional || !reader.boolean("is_causal", true);
}

// Reads a width per layer.
std::vector<int64_t> read_ffn_sizes(const ConfigReader& reader) {
  std::vector<int64_t> sizes;
  for (const double size : reader.numbers("intermediate_size")) {
    if (!(size >= 1.0 && size <= static_cast<double>(kWidth.max)) || size != std::floor(size)) {
      reader.fail(
          fmt::format("intermediate_size: expected integers in [1, {}], got {}", kWidth.max, size));
    }
    sizes.push_back(reader.status().ok() ? static_cast<int64_t>(size) : 1);
  }
  if (sizes.empty()) sizes.push_back(1);  // the list has no numbers, which was reported
  return sizes;
}

void read_sizes(const ConfigReader& reader, ModelConfig& config) {
  const FamilyDefaults& defaults = config.family->defaults;
  config.vocab_size = reader.integer("vocab_size", kVocab, nonzero(defaults.vocab_size));
  config.hidden_size = reader.integer("hidden_size", kWidth, nonzero(defaults.hidden_size));
  const int64_t ffn = defaults.intermediate_ratio > 0
                          ? defaults.intermediate_ratio * config.hidden_size
                          : defaults.intermediate_size;
  if (reader.length("intermediate_size") > 0 && !reader.is_string("intermediate_size")) {
    config.ffn_sizes = read_ffn_sizes(reader);
    config.intermediate_size = *std::max_element(config.ffn_sizes.begin(), config.ffn_sizes.end());
  } else {
    config.intermediate_size = reader.integer("intermediate_size", kWidth, nonzero(ffn));
  }
  int64_t listed_layers = defaults.num_hidden_layers;
  for (const std::string_view key : config.family->layer_lists)
    listed_layers = std::max(listed_layers, reader.length(key));
  config.num_hidden_layers = reader.integer("num_hidden_layers", kLayers, nonzero(listed_layers));
  config.num_attention_heads =
      reader.integer("num_attention_heads", kHeads, nonzero(defaults.num_attention_heads));
  const int64_t heads = config.num_attention_heads;
  const bool kv_default =
      defaults.num_key_value_heads > 0 && !reader.is_null("num_key_value_heads");
  config.num_key_value_heads = reader.integer("num_key_value_heads", kHeads,
                                              kv_default ? defaults.num_key_value_heads : heads);
  const int64_t derived_dim =
      defaults.head_dim > 0 ? defaults.head_dim : config.hidden_size / std::max<int64_t>(heads, 1);
  if (!reader.has("head_dim") && defaults.head_dim == 0 && config.hidden_size % heads != 0) {
    reader.fail(fmt::format("hidden_size: expected a multiple of num_attention_heads {}, got {}",
                            heads, config.hidden_size));
  }
  config.head_dim = reader.integer("head_dim", kHeadDim, derived_dim);
  if (config.head_dim < kHeadDim.min || config.head_dim > kHeadDim.max ||
      config.head_dim % 2 != 0) {
    reader.fail(fmt::format("head_dim: expected an even number in [{}, {}], got {}", kHeadDim.min,
                            kHeadDim.max, config.head_dim));
  }
  if (heads % config.num_key_value_heads != 0) {
    reader.fail(
        fmt::format("num_attention_heads: expected a multiple of num_key_value_heads {}, got {}",
                    config.num_key_value_heads, heads));
  }
  config.max_position_embeddings = reader.integer("max_position_embeddings", {1, kMaxPositions},
                                                  nonzero(defaults.max_position_embeddings));
}

bool slides(const Family& family, const ConfigReader& reader, int64_t layer) {
  switch (family.window_rule) {
    case WindowRule::kNone:
      return false;
    case WindowRule::kAll:
    case WindowRule::kAllWhenUsed:
      return true;
    case WindowRule::kFromLayer:
      return layer >= reader.integer("max_window_layers", {0, kLayers.max}, 28);
    case WindowRule::kPattern:
      return (layer + 1) % reader.integer("sliding_window_pattern", {1, kLayers.max},
                                          family.window_pattern) !=
             0;
  }
  return false;
}

bool is_per_layer(const ConfigReader& reader, const ModelConfig& config, std::string_view key,
                  size_t size) {
  if (static_cast<int64_t>(size) == config.num_hidden_layers) return true;
  reader.fail(fmt::format("{}: expected num_hidden_layers = {} entries, got {}", key,
                          config.num_hidden_layers, size));
  return false;
}

// layer_types, if present, takes precedence over the family's rule.
void read_windows(const ConfigReader& reader, ModelConfig& config) {
  const Family& family = *config.family;
  config.layer_windows.assign(static_cast<size_t>(config.num_hidden_layers), 0);
  if (family.window_rule == WindowRule::kNone) return;
  const bool may_be_off = family.window_rule == WindowRule::kFromLayer ||
                          family.window_rule == WindowRule::kAllWhenUsed;
  const bool off = may_be_off && !reader.boolean("use_sliding_window", false);
  const int64_t window =
      off || reader.is_null("sliding_window")
          ? 0
          : reader.integer("sliding_window", {0, kMaxPositions}, family.defaults.sliding_window);
  if (window == 0) return;
  const bool by_types = reader.has("layer_types");
  const std::vector<std::string> types =
      by_types ? reader.strings("layer_types") : std::vector<std::string>{};
  if (by_types && !is_per_layer(reader, config, "layer_types", types.size())) return;
  for (size_t layer = 0; layer < config.layer_windows.size(); ++layer) {
    if (by_types && types[layer] != "sliding_attention" && types[layer] != "full_attention") {
      reader.fail(fmt::format("layer_types: expected sliding_attention or full_attention, got {}",
                              types[layer]));
      return;
    }
    const bool sliding = by_types ? types[layer] == "sliding_attention"
                                  : slides(family, reader, static_cast<int64_t>(layer));
    if (sliding) config.layer_windows[layer] = static_cast<int32_t>(window);
  }
}

// Limits the products that later arithmetic computes: no number of elements or bytes comes near
// 2^63.
void check_products(const ConfigReader& reader, const ModelConfig& config) {
  constexpr int64_t kMaxElements = int64_t{1} << 40;
  const int64_t heads =
      config.num_attention_heads * std::max(config.head_dim, config.full_head_dim);
  if (heads > kWidth.max) {
    reader.fail(fmt::format("num_attention_heads * head_dim: expected at most {}, got {}",
                            kWidth.max, heads));
  }
  const int64_t layer = config.hidden_size * (3 * config.intermediate_size + 4 * heads);
  if (layer > kMaxElements || config.vocab_size * config.hidden_size > kMaxElements) {
    reader.fail(
        fmt::format("hidden_size {}, intermediate_size {}, vocab_size {}: expected tensors of at "
                    "most 2^40 elements",
                    config.hidden_size, config.intermediate_size, config.vocab_size));
  }
}

// Python writes Infinity for the upper bound of a step, which JSON lacks.
std::string with_finite_numbers(std::string_view text) {
  constexpr std::string_view kInfinity = "Infinity";
  std::string out;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (in_string && text[i] == '\\' && i + 1 < text.size()) out += text[i++];
    if (text[i] == '"') in_string = !in_string;
    if (!in_string && text.substr(i).starts_with(kInfinity)) {
      out += "1e300";
      i += kInfinity.size() - 1;
    } else {
      out += text[i];
    }
  }
  return out;
}

// A multimodal configuration may state the quantization at the top level or in its text part.
Result<QuantConfig> read_quantization(const boost::json::object& top,
                                      const boost::json::object& model) {
  for (const char* key : {"quantization_config", "compression_config"}) {
    for (const boost::json::object* object : {&top, &model}) {
      const boost::json::value* value = object->if_contains(key);
      if (value == nullptr || value->is_null()) continue;
      return QuantConfig::parse(boost::json::serialize(*value),
                                fmt::format("config.json: {}", key));
    }
  }
  return QuantConfig();
}

// Reads the files in which older tools state the quantization.
Result<QuantConfig> read_quantization_file(const ModelFiles& files) {
  for (const char* name : {"quantize_config.json", "quant_config.json", "hf_quant_config.json"}) {
    if (!files.contains(name)) continue;
    QUIRE_ASSIGN_OR_RETURN(const std::string_view text, files.text(name));
    return QuantConfig::parse(text, name);
  }
  return QuantConfig();
}

// Some files have a head even though head and embedding are tied. It is either the same tensor
// again, or the head was trained separately.
bool has_own_head(const NameMap& names, const TensorSource& source) {
  const NameMapEntry* embedding_entry = find_role(names, TensorRole::kTokenEmbedding);
  const NameMapEntry* head_entry = find_role(names, TensorRole::kLmHead);
  if (embedding_entry == nullptr || head_entry == nullptr) return false;
  for (const NamePrefix& prefix : names.prefixes) {
    const RawTensor* embedding = source.find(tensor_name(*embedding_entry, prefix, -1, "weight"));
    if (embedding == nullptr) continue;
    const RawTensor* head = source.find(tensor_name(*head_entry, prefix, -1, "weight"));
    if (head == nullptr) return false;
    const bool same = head->shape == embedding->shape && head->dtype == embedding->dtype &&
                      std::ranges::equal(head->data, embedding->data);
    return !same;
  }
  return false;
}

// Returns the object together with the fields of the family's nested objects.
boost::json::object with_nested(const Family& family, const boost::json::object& object) {
  boost::json::object all = object;
  for (const std::string_view key : family.nested) {
    const boost::json::value* inner = object.if_contains({key.data(), key.size()});
    if (inner == nullptr || !inner->is_object()) continue;
    for (const auto& field : inner->get_object()) all.insert(field);
  }
  return all;
}

// Returns whether the class is T5EncoderModel or a similar encoder of a model that also has a
// decoder.
bool is_encoder_alone(const ConfigReader& top) {
  const std::vector<std::string> classes = top.strings("architectures");
  return !classes.empty() && classes.front().ends_with("EncoderModel");
}

}  // namespace

Result<boost::json::object> parse_config_object(std::string_view text, std::string_view where) {
  if (static_cast<int64_t>(text.size()) > kMaxConfigBytes) {
    return too_large("{}: expected at most {} bytes, got {}", where, kMaxConfigBytes, text.size());
  }
  boost::json::parse_options options;
  options.max_depth = 32;
  boost::json::error_code error;
  const std::string plain = with_finite_numbers(text);
  boost::json::value value = boost::json::parse(plain, error, {}, options);
  if (error) return invalid_argument("{}: not valid JSON: {}", where, error.message());
  if (!value.is_object())
    return invalid_argument("{}: expected an object, got {}", where, shown(value));
  return std::move(value.get_object());
}

void read_granite_multipliers(const ConfigReader& reader, ModelConfig& config) {
  config.embedding_multiplier = reader.positive("embedding_multiplier", 1.0);
  config.residual_multiplier = reader.positive("residual_multiplier", 1.0);
  config.attention_scale = reader.positive("attention_multiplier", 1.0);
  config.logit_multiplier = 1.0 / reader.positive("logits_scaling", 1.0);
}

// In GGUF files, the multipliers have keys of their own.
void read_minicpm_multipliers(const ConfigReader& reader, ModelConfig& config) {
  const double depth = reader.positive("scale_depth", 1.4);
  const double width = reader.positive("dim_model_base", 256.0);
  config.embedding_multiplier =
      reader.positive("embedding_multiplier", reader.positive("scale_emb", 12.0));
  config.residual_multiplier = reader.positive(
      "residual_multiplier", depth / std::sqrt(static_cast<double>(config.num_hidden_layers)));
  config.logit_multiplier =
      1.0 / reader.positive("logit_scale", static_cast<double>(config.hidden_size) / width);
}

Result<ModelConfig> read_config_object(const Family& family, const boost::json::object& stated,
                                       std::string where) {
  Status status;
  const boost::json::object object = with_nested(family, stated);
  const ConfigReader reader(object, std::move(where), family.aliases, status);
  ModelConfig config;
  config.family = &family;
  read_sizes(reader, config);
  if (!status.ok()) return status;
  config.norm_eps = reader.positive("rms_norm_eps", family.defaults.norm_eps);
  read_activation(reader, config);
  read_block(reader, config);
  config.tie_word_embeddings =
      reader.boolean("tie_word_embeddings", family.defaults.tie_word_embeddings);
  if (!config.ffn_sizes.empty() &&
      !is_per_layer(reader, config, "intermediate_size", config.ffn_sizes.size())) {
    return status;
  }
  read_windows(reader, config);
  config.layer_rope.assign(config.layer_windows.size(), true);
  config.layer_parts.assign(config.layer_windows.size(), {});
  read_experts(reader, config);
  if (family.read_more != nullptr) family.read_more(reader, config);
  const auto has_state = [](const LayerParts& parts) { return parts.state; };
  if (config.is_bidirectional && std::ranges::any_of(config.layer_parts, has_state))
    reader.fail("is_causal: expected true of a model with states, got false");
  if (config.positions == PositionKind::kRope) read_rope(reader, config);
  check_products(reader, config);
  if (!status.ok()) return status;
  if (config.names.entries.empty()) config.names = family.hf_names;
  return config;
}

Result<ModelConfig> parse_model_config(std::string_view text) {
  QUIRE_ASSIGN_OR_RETURN(boost::json::object object, parse_config_object(text, "config.json"));
  Status status;
  const ConfigReader top(object, "config.json", {}, status);
  std::string model_type = top.string("model_type", "");
  const boost::json::object* model = &object;
  std::string where = "config.json";
  // In a multimodal model, the text part is served.
  if (top.has("text_config") && top.child("text_config")) {
    model = &object.at("text_config").get_object();
    where = "config.json: text_config";
    model_type = ConfigReader(*model, where, {}, status).string("model_type", model_type);
  }
  check_stored_type(top);
  check_stored_type(ConfigReader(*model, where, {}, status));
  if (!status.ok()) return status;
  // Jina's third embeddings are published as an XLM-RoBERTa with rope.
  if (model_type == "xlm-roberta" && top.string("position_embedding_type", "") == "rotary")
    model_type = "jina_embeddings_v3";
  const Family* family = find_family(model_type);
  if (family != nullptr && family->text_encoder != nullptr && is_encoder_alone(top))
    family = &family->text_encoder();
  if (family == nullptr) {
    return invalid_argument("config.json: model_type: expected one of {}; got '{}'",
                            known_model_types(), model_type);
  }
  QUIRE_ASSIGN_OR_RETURN(ModelConfig config, read_config_object(*family, *model, where));
  QUIRE_ASSIGN_OR_RETURN(config.quantization, read_quantization(object, *model));
  if (family->read_whole != nullptr) family->read_whole(top, config);
  // In a multimodal model, the top level decides whether the head is tied.
  config.tie_word_embeddings = top.boolean("tie_word_embeddings", config.tie_word_embeddings);
  if (!status.ok()) return status;
  return config;
}

Result<ModelConfig> parse_text_encoder(std::string_view text, const ModelConfig& config) {
  QUIRE_ASSIGN_OR_RETURN(const boost::json::object object,
                         parse_config_object(text, "config.json"));
  return read_config_object(config.family->text_encoder(), object, "config.json");
}

namespace {

// Reads the token from the first of the files that has the key.
Result<std::optional<TokenId>> read_token(const ModelFiles& files, std::string_view key,
                                          int64_t vocab_size) {
  for (const std::string name : {"generation_config.json", "config.json"}) {
    if (!files.contains(name)) continue;
    QUIRE_ASSIGN_OR_RETURN(const std::string_view text, files.text(name));
    QUIRE_ASSIGN_OR_RETURN(const boost::json::object object, parse_config_object(text, name));
    Status status;
    const ConfigReader reader(object, name, {}, status);
    if (!reader.has(key)) continue;
    const int64_t id = reader.integer(key, {0, vocab_size - 1});
    if (!status.ok()) return status;
    return std::optional(static_cast<TokenId>(id));
  }
  return std::optional<TokenId>();
}

// Reads the first tokens of the decoder, and whether there is a bias of logits.
Status read_text_decoder(const ModelFiles& files, const TensorSource& source, ModelConfig& config) {
  QUIRE_ASSIGN_OR_RETURN(const std::optional<TokenId> start,
                         read_token(files, "decoder_start_token_id", config.vocab_size));
  if (!start) {
    return invalid_argument(
        "config.json: decoder_start_token_id: expected a token id here or in "
        "generation_config.json, got nothing");
  }
  QUIRE_ASSIGN_OR_RETURN(const std::optional<TokenId> forced,
                         read_token(files, "forced_bos_token_id", config.vocab_size));
  config.decoder_start = {*start};
  // A forced token is given instead of sampled.
  if (forced) config.decoder_start.push_back(*forced);
  const NameMapEntry* const bias = find_role(config.names, TensorRole::kLogitBias);
  config.logit_bias = bias != nullptr && source.find(std::string(bias->pattern)) != nullptr;
  return {};
}

// Reads the GGUF metadata under the keys of config.json.
Result<ModelConfig> read_gguf_object(const Family& family, const boost::json::object& object,
                                     const std::string& where) {
  QUIRE_ASSIGN_OR_RETURN(ModelConfig config, read_config_object(family, object, where));
  config.format = CheckpointFormat::kGguf;
  config.names = family.gguf_names;
  if (family.text_encoder == nullptr) return config;
  Status status;
  const ConfigReader reader(object, where, {}, status);
  const int64_t start = reader.integer("decoder_start_token_id", {0, config.vocab_size - 1});
  config.decoder_start = {static_cast<TokenId>(start)};
  if (!status.ok()) return status;
  return config;
}

}  // namespace

Result<ModelConfig> read_text_encoder(const ModelFiles& files, const ModelConfig& config) {
  const auto gguf = files.gguf_name();
  if (!gguf) {
    QUIRE_ASSIGN_OR_RETURN(const std::string_view text, files.text("config.json"));
    return parse_text_encoder(text, config);
  }
  const Family& family = config.family->text_encoder();
  QUIRE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, files.bytes(*gguf));
  QUIRE_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::parse(*gguf, bytes));
  QUIRE_ASSIGN_OR_RETURN(const boost::json::object object, gguf_config_object(family, file));
  return read_gguf_object(family, object, *gguf);
}

Result<ModelConfig> read_model_config(const ModelFiles& files, const TensorSource& source) {
  const auto gguf = files.gguf_name();
  if (!gguf) {
    QUIRE_ASSIGN_OR_RETURN(const std::string_view text, files.text("config.json"));
    QUIRE_ASSIGN_OR_RETURN(ModelConfig config, parse_model_config(text));
    if (has_own_head(checkpoint_names(config), source)) config.tie_word_embeddings = false;
    if (config.quantization.method() == QuantMethod::kNone) {
      QUIRE_ASSIGN_OR_RETURN(config.quantization, read_quantization_file(files));
    }
    QUIRE_RETURN_IF_ERROR(read_pooling(files, config));
    if (config.family->text_encoder != nullptr)
      QUIRE_RETURN_IF_ERROR(read_text_decoder(files, source, config));
    return config;
  }
  QUIRE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, files.bytes(*gguf));
  QUIRE_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::parse(*gguf, bytes));
  const GgufValue* value = file.find("general.architecture");
  const auto architecture = value == nullptr ? std::nullopt : value->as_string();
  const Family* family = architecture ? find_gguf_family(file, *architecture) : nullptr;
  if (architecture == "clip") {
    return invalid_argument(
        "{}: expected a language model, got what reads images for one: name the model, and this "
        "file "
        "with --mmproj",
        *gguf);
  }
  if (family == nullptr) {
    return invalid_argument("{}: general.architecture: expected one of {}; got '{}'", *gguf,
                            known_gguf_architectures(), architecture.value_or(""));
  }
  QUIRE_ASSIGN_OR_RETURN(const boost::json::object object, gguf_config_object(*family, file));
  QUIRE_ASSIGN_OR_RETURN(ModelConfig config, read_gguf_object(*family, object, *gguf));
  QUIRE_RETURN_IF_ERROR(read_gguf_pooling(file, config));
  return config;
}

int64_t ModelConfig::max_model_len() const {
  if (max_seq_length > 0 && max_seq_length < max_position_embeddings) return max_seq_length;
  const int64_t longest = served_length > 0 ? served_length : kMaxPositions;
  if (positions != PositionKind::kRope || family->has_local_rope)
    return std::min(longest, max_position_embeddings);
  double length = static_cast<double>(max_position_embeddings);
  if (rope.type == RopeType::kLinear || rope.type == RopeType::kDynamic) length *= rope.factor;
  if (rope.type == RopeType::kYarn) {
    length =
        std::max(length, static_cast<double>(rope.original_max_position_embeddings) * rope.factor);
  }
  return static_cast<int64_t>(std::min(length, static_cast<double>(longest)));
}

}  // namespace quire
