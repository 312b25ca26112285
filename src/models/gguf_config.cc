#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <cstring>

#include "models/config_fields.h"
#include "models/gguf/gguf_states.h"
#include "models/gguf/gguf_streams.h"
#include "models/gguf/gguf_text_source.h"
#include "models/gguf/shown_value.h"

namespace quire {
namespace {

struct GgufKey {
  std::string_view gguf;  // after "<architecture>."
  std::string_view json;
};

constexpr GgufKey kKeys[] = {
    {"vocab_size", "vocab_size"},
    {"context_length", "max_position_embeddings"},
    {"embedding_length", "hidden_size"},
    {"block_count", "num_hidden_layers"},
    {"decoder_block_count", "num_decoder_layers"},
    {"decoder_start_token_id", "decoder_start_token_id"},
    {"feed_forward_length", "intermediate_size"},
    {"attention.head_count", "num_attention_heads"},
    {"attention.head_count_kv", "num_key_value_heads"},
    {"attention.key_length", "head_dim"},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
    {"attention.layer_norm_epsilon", "rms_norm_eps"},
    {"attention.sliding_window", "sliding_window"},
    {"attention.relative_buckets_count", "relative_attention_num_buckets"},
    {"attention.shared_kv_layers", "num_kv_shared_layers"},
    {"full_attention_interval", "full_attention_interval"},
    {"ssm.conv_kernel", "linear_conv_kernel_dim"},
    {"ssm.state_size", "linear_key_head_dim"},
    {"ssm.group_count", "linear_num_key_heads"},
    {"ssm.time_step_rank", "linear_num_value_heads"},
    {"ssm.conv_kernel", "conv_kernel"},
    {"ssm.conv_kernel", "mamba_d_conv"},
    {"ssm.state_size", "state_size"},
    {"ssm.state_size", "mamba_d_state"},
    {"ssm.state_size", "ssm_state_size"},
    {"ssm.group_count", "n_groups"},
    {"ssm.group_count", "mamba_n_groups"},
    {"ssm.inner_size", "mamba_d_ssm"},
    // The rank of Mamba's step, or the number of Mamba-2's heads.
    {"ssm.time_step_rank", "time_step_rank"},
    {"ssm.time_step_rank", "mamba_dt_rank"},
    {"ssm.time_step_rank", "num_heads"},
    {"ssm.time_step_rank", "mamba_n_heads"},
    {"ssm.time_step_rank", "mamba_num_heads"},
    {"shortconv.l_cache", "conv_L_cache"},
    {"kda.head_dim", "linear_head_dim"},
    {"embedding_length_per_layer_input", "hidden_size_per_layer_input"},
    {"attention.kv_lora_rank", "kv_lora_rank"},
    {"attention.q_lora_rank", "q_lora_rank"},
    {"attention.scale", "attention_multiplier"},
    {"attention.max_alibi_bias", "alibi_bias_max"},
    {"attention.clamp_kqv", "clip_qkv"},
    {"attention.temperature_scale", "llama_4_scaling_beta"},
    {"embedding_scale", "embedding_multiplier"},
    {"residual_scale", "residual_multiplier"},
    {"logit_scale", "logit_scale"},
    {"use_parallel_residual", "use_parallel_residual"},
    {"expert_count", "num_experts"},
    {"expert_used_count", "num_experts_per_tok"},
    {"expert_feed_forward_length", "moe_intermediate_size"},
    {"expert_shared_feed_forward_length", "shared_expert_intermediate_size"},
    {"expert_shared_count", "num_shared_experts"},
    {"expert_weights_norm", "norm_topk_prob"},
    {"expert_weights_scale", "routed_scaling_factor"},
    {"expert_group_count", "n_group"},
    {"expert_group_used_count", "topk_group"},
    {"leading_dense_block_count", "first_k_dense_replace"},
    {"attn_logit_softcapping", "attn_logit_softcapping"},
    {"final_logit_softcapping", "final_logit_softcapping"},
    {"rope.freq_base", "rope_theta"},
    {"rope.freq_base_swa", "rope_local_base_freq"},
};

// Gemma's largest models scale queries by a head width of hidden_size / num_attention_heads, the
// others by head_dim. GGUF files do not tell which, but the number of layers does.
constexpr int64_t kGemma27bLayers[] = {46, 62};

constexpr double kMaxLayers = 4096;

const RawTensor* find_tensor(const GgufFile& file, std::string_view name) {
  for (const RawTensor& tensor : file.tensors()) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

class Translator {
 public:
  Translator(const Family& family, const GgufFile& file) : family_(family), file_(file) {
    const GgufValue* value = file.find("general.architecture");
    if (value != nullptr) architecture_ = value->as_string().value_or("");
  }

  Result<boost::json::object> run() {
    object_["model_type"] = text(family_.name);
    if (!family_.gguf_activation.empty()) object_["hidden_act"] = text(family_.gguf_activation);
    for (const GgufKey& key : kKeys) QUIRE_RETURN_IF_ERROR(copy_scalar(key));
    QUIRE_RETURN_IF_ERROR(drop_prediction_layers());
    add_gguf_states(file_, object_);
    add_expert_rules();
    const RawTensor* embedding = find_tensor(file_, "token_embd.weight");
    if (embedding != nullptr && embedding->shape.size() == 2)
      object_["vocab_size"] = embedding->shape[0];
    const RawTensor* types = find_tensor(file_, "token_types.weight");
    if (types != nullptr && types->shape.size() == 2) object_["type_vocab_size"] = types->shape[0];
    object_["tie_word_embeddings"] = !has("output.weight");
    object_["attention_bias"] = has("blk.0.attn_q.bias") || has("blk.0.attn_qkv.bias");
    object_["attention_out_bias"] = has("blk.0.attn_output.bias");
    object_["mlp_bias"] = has("blk.0.ffn_down.bias");
    object_["use_qk_norm"] = has("blk.0.attn_q_norm.weight");
    // All Llama 4 models but the largest have norms of queries and keys, which have no weights.
    constexpr int64_t kMaverickExperts = 128;
    if (family_.gguf_architecture == "llama4")
      object_["use_qk_norm"] = number("expert_count") != kMaverickExperts;
    object_["num_ln_in_parallel_attn"] = has("blk.0.attn_norm_2.weight") ? 2 : 1;
    // If the file states a window, it is used.
    object_["use_sliding_window"] = object_.contains("sliding_window");
    if (!object_.contains("sliding_window")) object_["sliding_window"] = nullptr;
    QUIRE_RETURN_IF_ERROR(add_layer_types());
    QUIRE_RETURN_IF_ERROR(family_.has_own_heads ? add_layer_counts() : add_layer_shapes());
    QUIRE_RETURN_IF_ERROR(add_gguf_streams(file_, object_));
    add_gguf_text_source(file_, object_);
    add_delta_net();
    // In a GGUF file without this key, there are as many KV heads as query heads, whatever the
    // default of the family's config.json is.
    if (!object_.contains("num_key_value_heads")) object_["num_key_value_heads"] = nullptr;
    add_query_scale();
    QUIRE_RETURN_IF_ERROR(add_rope());
    QUIRE_RETURN_IF_ERROR(add_latent());
    return std::move(object_);
  }

 private:
  static boost::json::string text(std::string_view value) {
    return boost::json::string(value.data(), value.size());
  }

  bool has(std::string_view tensor) const { return find_tensor(file_, tensor) != nullptr; }

  const GgufValue* find(std::string_view key) const {
    return file_.find(fmt::format("{}.{}", architecture_, key));
  }

  std::optional<double> number(std::string_view key) const {
    const GgufValue* value = find(key);
    return value == nullptr ? std::nullopt : value->as_float();
  }

  // Layers beyond the last one, which predict further tokens, are counted as blocks but not run.
  Status drop_prediction_layers() {
    const GgufValue* value = find("nextn_predict_layers");
    boost::json::value* layers = object_.if_contains("num_hidden_layers");
    if (value == nullptr || layers == nullptr || !layers->is_int64()) return {};
    const auto count = value->as_int();
    if (!count || *count < 0 || *count >= std::max<int64_t>(layers->get_int64(), 1)) {
      return invalid_argument(
          "{}.nextn_predict_layers: expected a number in [0, block_count = {}), got {}",
          architecture_, layers->get_int64(), shown(value));
    }
    *layers = layers->get_int64() - *count;
    return {};
  }

  // Adds keys that files leave out because they follow from the architecture.
  void add_expert_rules() {
    if (family_.experts == nullptr) return;
    if (family_.experts->may_have_none && !object_.contains("num_experts"))
      object_["num_experts"] = 0;
    if (!object_.contains("norm_topk_prob"))
      object_["norm_topk_prob"] = family_.experts->gguf_normalizes;
    if (const auto* first = object_.if_contains("first_k_dense_replace"))
      object_["moe_layer_start_index"] = *first;
    if (const GgufValue* step = find("interleave_moe_layer_step")) {
      for (const char* key : {"moe_layer_interval", "interleave_moe_layer_step"})
        object_[key] = step->as_int().value_or(1);
    }
    object_["lm_head_bias"] = has("output.bias");
    object_["mup_enabled"] = true;  // all of AFMoE's files are of models with scaled embeddings
  }

  // A list of equal numbers, one per layer, is copied as one number. The widths of MLPs may differ;
  // add_layer_shapes() handles the numbers of KV heads.
  Status copy_scalar(const GgufKey& key) {
    const GgufValue* value = find(key.gguf);
    if (value == nullptr) return {};
    if (key.json == "num_key_value_heads" && value->as_ints()) return {};
    boost::json::value& out = object_[boost::json::string_view(key.json.data(), key.json.size())];
    if (const bool* flag = std::get_if<bool>(&value->value)) {
      out = *flag;
    } else if (const auto integer = value->as_int()) {
      out = *integer;
    } else if (const auto real = value->as_float()) {
      out = *real;
    } else if (auto list = value->as_ints(); list && !list->empty()) {
      if (family_.has_own_heads) {
        out = std::ranges::max(*list);
        return {};
      }
      // Layers without an MLP have a width of 0.
      if (key.json == "intermediate_size" &&
          std::ranges::any_of(*list, [](int64_t x) { return x > 0; }))
        std::erase(*list, 0);
      if (key.json == "intermediate_size" &&
          std::ranges::count(*list, list->front()) != static_cast<std::ptrdiff_t>(list->size())) {
        out = boost::json::array(list->begin(), list->end());
        return {};
      }
      for (const int64_t element : *list) {
        if (element != list->front()) {
          return unimplemented("{}.{}: expected one value for all layers, got {} and {}",
                               family_.gguf_architecture, key.gguf, list->front(), element);
        }
      }
      out = list->front();
    } else {
      return invalid_argument("{}.{}: expected a number, got {}", family_.gguf_architecture,
                              key.gguf, shown(value));
    }
    return {};
  }

  // Adds which layers have a window, if the file says it: by one flag per layer, or by the period
  // n, where the last of every n layers sees everything.
  Status add_layer_types() {
    const GgufValue* pattern = find("attention.sliding_window_pattern");
    if (pattern == nullptr) return {};
    const auto type = [](bool slides) { return slides ? "sliding_attention" : "full_attention"; };
    boost::json::array types;
    if (const auto* flags = std::get_if<std::vector<uint8_t>>(&pattern->value)) {
      for (const uint8_t flag : *flags) types.emplace_back(type(flag != 0));
    } else if (const auto period = pattern->as_int(); period && *period >= 0) {
      const auto layers = number("block_count").value_or(0.0);
      for (int64_t i = 0; static_cast<double>(i) < std::min(layers, kMaxLayers); ++i) {
        types.emplace_back(type(*period == 0 || (i + 1) % *period != 0));
      }
    } else {
      return invalid_argument(
          "{}.attention.sliding_window_pattern: expected a period or one flag per layer, got {}",
          family_.gguf_architecture, shown(pattern));
    }
    object_["layer_types"] = std::move(types);
    return {};
  }

  // Adds sizes that differ between layers; the file has a list, or one number for all layers.
  Status add_layer_counts() {
    constexpr GgufKey kCounts[] = {{"attention.head_count", "layer_num_heads"},
                                   {"attention.head_count_kv", "layer_num_kv_heads"},
                                   {"feed_forward_length", "layer_intermediate_sizes"}};
    const auto layers = std::clamp(number("block_count").value_or(0.0), 0.0, kMaxLayers);
    for (const GgufKey& key : kCounts) {
      const GgufValue* value = find(key.gguf);
      if (value == nullptr) continue;
      auto counts = value->as_ints();
      if (const auto one = value->as_int()) counts.emplace(static_cast<size_t>(layers), *one);
      if (!counts) {
        return invalid_argument("{}.{}: expected a number or one per layer, got {}",
                                family_.gguf_architecture, key.gguf, shown(value));
      }
      object_[boost::json::string_view(key.json.data(), key.json.size())] =
          boost::json::array(counts->begin(), counts->end());
    }
    return {};
  }

  // Layers with a window may have other numbers of heads than those without (Gemma 4's keys).
  Status add_layer_shapes() {
    if (const GgufValue* swa = find("attention.key_length_swa")) {
      if (const auto* full = object_.if_contains("head_dim")) object_["global_head_dim"] = *full;
      object_["head_dim"] = swa->as_int().value_or(0);
    }
    if (const RawTensor* table = find_tensor(file_, "per_layer_token_embd.weight");
        table != nullptr && !table->shape.empty()) {
      object_["vocab_size_per_layer_input"] = table->shape[0];
      const GgufValue* const padding = file_.find("tokenizer.ggml.padding_token_id");
      if (padding != nullptr) object_["pad_token_id"] = padding->as_int().value_or(0);
    }
    if (!object_.contains("hidden_size_per_layer_input"))
      object_["hidden_size_per_layer_input"] = 0;
    object_["layer_scalar"] = has("blk.0.layer_output_scale.weight");
    const GgufValue* value = find("attention.head_count_kv");
    const auto heads = value == nullptr ? std::nullopt : value->as_ints();
    if (!heads || heads->empty()) return {};
    const auto* types = object_.if_contains("layer_types");
    std::optional<int64_t> sliding, full;
    for (size_t i = 0; i < heads->size(); ++i) {
      if ((*heads)[i] == 0) continue;  // the layer has no attention
      const bool slides = types != nullptr && types->is_array() && i < types->get_array().size() &&
                          types->get_array()[i] == "sliding_attention";
      std::optional<int64_t>& kind = slides ? sliding : full;
      if (kind && *kind != (*heads)[i]) {
        return unimplemented(
            "{}.attention.head_count_kv: expected one value for all layers of a kind, got {} and "
            "{}",
            family_.gguf_architecture, *kind, (*heads)[i]);
      }
      kind = (*heads)[i];
    }
    if (!sliding && !full) return {};
    object_["num_key_value_heads"] = sliding ? *sliding : *full;
    if (sliding && full) object_["num_global_key_value_heads"] = *full;
    return {};
  }

  // Adds the sizes of a gated DeltaNet. Its value heads use the key heads in turn, except in the
  // first models.
  void add_delta_net() {
    const auto integer = [&](std::string_view key) {
      return find(key) == nullptr ? std::nullopt : find(key)->as_int();
    };
    const auto inner = integer("ssm.inner_size");
    const auto heads = integer("ssm.time_step_rank");
    if (!inner || !heads || *heads <= 0) return;
    object_["linear_value_head_dim"] = *inner / *heads;
    object_["tiled_value_heads"] = architecture_ != "qwen3next";
    const GgufValue* recurrent = find("attention.recurrent_layers");
    const auto* flags =
        recurrent == nullptr ? nullptr : std::get_if<std::vector<uint8_t>>(&recurrent->value);
    const auto* layers = object_.if_contains("num_hidden_layers");
    if (flags == nullptr || layers == nullptr || !layers->is_int64()) return;
    boost::json::array types;
    for (size_t i = 0; i < flags->size() && static_cast<int64_t>(i) < layers->get_int64(); ++i)
      types.emplace_back((*flags)[i] != 0 ? "linear_attention" : "full_attention");
    object_["layer_types"] = std::move(types);
  }

  void add_query_scale() {
    const auto integer = [&](std::string_view key) {
      return find(key) == nullptr ? std::nullopt : find(key)->as_int();
    };
    const auto layers = integer("block_count");
    const auto hidden = integer("embedding_length");
    const auto heads = integer("attention.head_count");
    const auto head_dim = integer("attention.key_length");
    if (!family_.scaled_embedding || !layers || !hidden || !heads || *heads <= 0) return;
    const bool is_27b = *layers == kGemma27bLayers[0] || *layers == kGemma27bLayers[1];
    if (is_27b || head_dim)
      object_["query_pre_attn_scalar"] = is_27b ? *hidden / *heads : *head_dim;
  }

  Status add_rope() {
    boost::json::object scaling;
    // Granite's hybrid models say here whether they rotate.
    const GgufValue* rotates = find("rope.scaling.finetuned");
    const bool* flag = rotates == nullptr ? nullptr : std::get_if<bool>(&rotates->value);
    const bool is_hybrid = family_.gguf_architecture == "granitehybrid";
    if (is_hybrid) object_["position_embedding_type"] = flag == nullptr || *flag ? "rope" : "nope";
    const GgufValue* type = find("rope.scaling.type");
    const std::string_view name = type == nullptr ? "none" : type->as_string().value_or("none");
    if (name != "none") scaling["rope_type"] = text(name);
    if (const auto factor = number("rope.scaling.factor")) scaling["factor"] = *factor;
    if (const auto original = number("rope.scaling.original_context_length")) {
      scaling["original_max_position_embeddings"] = *original;
    }
    if (const auto attention = number("rope.scaling.attn_factor"))
      scaling["attention_factor"] = *attention;
    if (const auto log_multiplier = number("rope.scaling.yarn_log_multiplier")) {
      scaling["mscale"] = *log_multiplier * 10;
      scaling["mscale_all_dim"] = *log_multiplier * 10;
    }
    if (find_tensor(file_, "rope_factors_long.weight") != nullptr) {
      scaling["rope_type"] = "longrope";
      QUIRE_ASSIGN_OR_RETURN(scaling["long_factor"], read_factors("rope_factors_long.weight"));
      QUIRE_ASSIGN_OR_RETURN(scaling["short_factor"], read_factors("rope_factors_short.weight"));
    }
    if (find_tensor(file_, "rope_freqs.weight") != nullptr) {
      QUIRE_ASSIGN_OR_RETURN(object_["rope_freq_factors"], read_factors("rope_freqs.weight"));
    }
    add_rotary_dim();
    if (const GgufValue* sections = find("rope.dimension_sections"))
      QUIRE_RETURN_IF_ERROR(add_sections(*sections, scaling));
    if (scaling.contains("rope_type") || scaling.contains("mrope_section"))
      object_["rope_scaling"] = std::move(scaling);
    return {};
  }

  // Adds the number of pairs that rotate by time, row and column. A fourth number is ignored, and
  // all are 0 in files of models without pictures.
  Status add_sections(const GgufValue& value, boost::json::object& scaling) const {
    const auto sections = value.as_ints();
    if (!sections || sections->size() < 3) {
      return invalid_argument("{}.rope.dimension_sections: expected 3 numbers, got {}",
                              architecture_, shown(&value));
    }
    const boost::json::array first(sections->begin(), sections->begin() + 3);
    if (std::ranges::any_of(*sections, [](int64_t section) { return section != 0; }))
      scaling["mrope_section"] = first;
    return {};
  }

  void add_rotary_dim() {
    const auto rotary = number("rope.dimension_count");
    auto head_dim = number("attention.key_length");
    const auto hidden = number("embedding_length");
    const auto heads = number("attention.head_count");
    if (!head_dim && hidden && heads && *heads > 0.0) head_dim = std::floor(*hidden / *heads);
    if (rotary && head_dim && *head_dim > 0.0)
      object_["partial_rotary_factor"] = *rotary / *head_dim;
  }

  // Adds the sizes of latent attention's heads. In newer files, key_length is the size of a cached
  // token, and other keys give the sizes of heads.
  Status add_latent() {
    if (!object_.contains("kv_lora_rank")) return {};
    const auto integer = [&](std::string_view key) {
      return find(key) == nullptr ? std::nullopt : find(key)->as_int();
    };
    const auto head = [&](std::string_view newer, std::string_view older) {
      const auto value = integer(newer);
      return value ? value : integer(older);
    };
    const auto rotated = integer("rope.dimension_count");
    const auto key = head("attention.key_length_mla", "attention.key_length");
    const auto value = head("attention.value_length_mla", "attention.value_length");
    if (rotated && key && (*rotated < 0 || *rotated > *key)) {
      return invalid_argument(
          "{}.rope.dimension_count: expected a part of the {} dims of a key, got {}", architecture_,
          *key, *rotated);
    }
    if (rotated) object_["qk_rope_head_dim"] = *rotated;
    if (rotated && key) object_["qk_nope_head_dim"] = *key - *rotated;
    if (value) object_["v_head_dim"] = *value;
    if (!object_.contains("q_lora_rank")) object_["q_lora_rank"] = nullptr;
    object_["num_key_value_heads"] = nullptr;
    object_.erase("head_dim");
    object_.erase("partial_rotary_factor");
    return {};
  }

  Result<boost::json::value> read_factors(std::string_view name) const {
    const RawTensor* tensor = find_tensor(file_, name);
    if (tensor == nullptr) return not_found("the checkpoint has no tensor '{}'", name);
    if (tensor->dtype != DType::kF32 || tensor->shape.size() != 1) {
      return invalid_argument("tensor '{}': expected a list of F32, got rank {} of {}", name,
                              tensor->shape.size(), tensor->type_name);
    }
    boost::json::array factors;
    for (int64_t i = 0; i < tensor->shape[0]; ++i) {
      float factor;
      std::memcpy(&factor, tensor->data.data() + i * 4, 4);
      factors.emplace_back(static_cast<double>(factor));
    }
    return boost::json::value(std::move(factors));
  }

  const Family& family_;
  const GgufFile& file_;
  std::string architecture_;
  boost::json::object object_;
};

}  // namespace

Result<boost::json::object> gguf_config_object(const Family& family, const GgufFile& file) {
  return Translator(family, file).run();
}

}  // namespace quire
