#include "weights/adapters/adapter_config.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cmath>
#include <cstdio>

#include "weights/tensors/file_text.h"

namespace quire {
namespace {

namespace json = boost::json;

constexpr size_t kMaxConfigBytes = size_t{4} << 20;
constexpr size_t kMaxPatterns = 4096;
constexpr int64_t kMaxRank = 1 << 14;
constexpr double kMaxAlpha = 1e6;

// Fields that may have any value: they say how the adapter was trained or how its modules were
// chosen, which its tensors show.
constexpr std::array<std::string_view, 25> kHarmless = {
    "task_type",      "auto_mapping",        "modules_to_save",    "revision",
    "inference_mode", "target_modules",      "exclude_modules",    "lora_dropout",
    "fan_in_fan_out", "layers_to_transform", "layers_pattern",     "megatron_config",
    "megatron_core",  "loftq_config",        "eva_config",         "lora_ga_config",
    "runtime_config", "qalora_group_size",   "base_model_class",   "parent_library",
    "qalora_config",  "corda_config",        "tokenizer_revision", "trust_remote_code",
    "unsloth_version"};

// Initializations that do not change the base model's weights.
constexpr std::array<std::string_view, 3> kPlainInits = {"gaussian", "eva", "orthogonal"};

template <class Names>
bool is_one_of(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string shown(const json::value& value) {
  constexpr size_t kMaxShown = 60;
  std::string text = json::serialize(value);
  return text.size() > kMaxShown ? text.substr(0, kMaxShown) + "…" : text;
}

// Returns whether a field's value requests nothing: null, false, "", [] and {} do not.
bool asks_for_nothing(const json::value& value) {
  if (value.is_null()) return true;
  if (value.is_bool()) return !value.get_bool();
  if (value.is_string()) return value.get_string().empty();
  if (value.is_array()) return value.get_array().empty();
  return value.is_object() && value.get_object().empty();
}

}  // namespace

class AdapterConfig::Parser {
 public:
  Result<AdapterConfig> run(const json::object& object) {
    if (const json::value* type = object.if_contains("peft_type"); type == nullptr) {
      fail("peft_type: expected \"LORA\", got none");
    }
    for (const json::key_value_pair& field : object) {
      read({field.key().data(), field.key().size()}, field.value());
      if (!status_.ok()) return one_line(status_);
    }
    if (config_.has_bias_ && config_.has_magnitudes_)
      return invalid_argument("expected lora_bias or use_dora, got both");
    return std::move(config_);
  }

 private:
  template <typename... Args>
  void fail(fmt::format_string<Args...> format, Args&&... args) {
    if (status_.ok()) status_ = invalid_argument(format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void refuse(fmt::format_string<Args...> format, Args&&... args) {
    if (status_.ok()) status_ = unimplemented(format, std::forward<Args>(args)...);
  }

  void read(std::string_view key, const json::value& value) {
    if (key == "peft_type") return read_type(value);
    if (key == "r") {
      config_.rank_ = static_cast<int64_t>(number(key, value, 1, kMaxRank, true));
    } else if (key == "lora_alpha") {
      config_.alpha_ = number(key, value, -kMaxAlpha, kMaxAlpha, false);
    } else if (key == "use_rslora") {
      config_.is_rank_stabilized_ = boolean(key, value);
    } else if (key == "lora_bias") {
      config_.has_bias_ = boolean(key, value);
    } else if (key == "use_dora") {
      config_.has_magnitudes_ = boolean(key, value);
    } else if (key == "rank_pattern") {
      read_overrides(key, value, 1, kMaxRank, true, config_.ranks_);
    } else if (key == "alpha_pattern") {
      read_overrides(key, value, -kMaxAlpha, kMaxAlpha, false, config_.alphas_);
    } else if (key == "ensure_weight_tying") {
      config_.ties_weights_ = boolean(key, value);
    } else if (key == "target_parameters") {
      read_parameters(key, value);
    } else if (key == "peft_version") {
      read_version(value);
    } else if (key == "base_model_name_or_path") {
      if (value.is_string()) config_.base_model_ = std::string(value.get_string());
    } else if (key == "bias") {
      if (!asks_for_nothing(value) && !(value.is_string() && value.get_string() == "none"))
        refuse("bias: expected \"none\" (lora_bias is supported), got {}", shown(value));
    } else if (key == "init_lora_weights") {
      read_init(value);
    } else if (!is_one_of(kHarmless, key) && !asks_for_nothing(value)) {
      refuse("{}: adapters that need it are not supported, got {}", key, shown(value));
    }
  }

  void read_type(const json::value& value) {
    if (value.is_string() && value.get_string() == "LORA") return;
    fail("peft_type: expected \"LORA\", got {}", shown(value));
  }

  // PiSSA, OLoRA, CorDA, LoftQ and LoRA-GA are refused: they change the base model's weights before
  // training.
  void read_init(const json::value& value) {
    if (value.is_bool() || asks_for_nothing(value)) return;
    if (value.is_string() && is_one_of(kPlainInits, std::string_view(value.get_string()))) return;
    refuse("init_lora_weights: {} changes the base model: convert the adapter to plain LoRA first",
           shown(value));
  }

  void read_parameters(std::string_view key, const json::value& value) {
    if (asks_for_nothing(value)) return;
    const bool is_list = value.is_array() && value.get_array().size() <= kMaxPatterns;
    for (size_t i = 0; is_list && i < value.get_array().size(); ++i) {
      const json::value& name = value.get_array()[i];
      if (!name.is_string() || name.get_string().empty())
        return fail("{}: expected names, got {}", key, shown(name));
      config_.parameters_.emplace_back(name.get_string());
    }
    if (!is_list)
      fail("{}: expected a list of at most {} names, got {}", key, kMaxPatterns, shown(value));
  }

  // Reads a version such as "0.19.1"; any other value leaves the version unset.
  void read_version(const json::value& value) {
    if (!value.is_string()) return;
    const std::string text(value.get_string());
    int major = 0, minor = 0;
    if (std::sscanf(text.c_str(), "%3d.%3d", &major, &minor) == 2 && major >= 0 && minor >= 0)
      config_.peft_version_ = major * 1000 + minor;
  }

  bool boolean(std::string_view key, const json::value& value) {
    if (value.is_bool()) return value.get_bool();
    if (!value.is_null()) fail("{}: expected true or false, got {}", key, shown(value));
    return false;
  }

  double number(std::string_view key, const json::value& value, double min, double max,
                bool is_whole) {
    const bool is_number = value.is_int64() || value.is_uint64() || value.is_double();
    const double got = is_number ? value.to_number<double>() : 0.0;
    if (is_number && got >= min && got <= max && (!is_whole || got == std::floor(got))) return got;
    fail("{}: expected a{} number in [{}, {}], got {}", key, is_whole ? " whole" : "", min, max,
         shown(value));
    return min;
  }

  void read_overrides(std::string_view key, const json::value& value, double min, double max,
                      bool is_whole, std::vector<Override>& out) {
    if (value.is_null()) return;
    if (!value.is_object() || value.get_object().size() > kMaxPatterns) {
      return fail("{}: expected an object of at most {} patterns, got {}", key, kMaxPatterns,
                  shown(value));
    }
    for (const json::key_value_pair& field : value.get_object()) {
      const std::string text(field.key().data(), field.key().size());
      const double got = number(fmt::format("{}.{}", key, text), field.value(), min, max, is_whole);
      Result<NamePattern> pattern = NamePattern::regex("(.*\\.)?(" + text + ")$");
      if (!pattern.ok()) return fail("{}: {}", key, pattern.status().message());
      out.push_back({std::move(*pattern), got});
    }
  }

  AdapterConfig config_;
  Status status_;
};

Result<AdapterConfig> AdapterConfig::parse(std::string_view text) {
  if (text.size() > kMaxConfigBytes) {
    return too_large("expected at most {} bytes, got {}", kMaxConfigBytes, text.size());
  }
  boost::system::error_code error;
  const json::value value = json::parse({text.data(), text.size()}, error);
  if (error || !value.is_object()) {
    return invalid_argument("expected a JSON object, got {}",
                            error ? error.message() : shown(value));
  }
  return Parser().run(value.get_object());
}

int64_t AdapterConfig::rank_of(std::string_view module) const {
  for (const Override& rank : ranks_) {
    if (rank.pattern.matches(module)) return static_cast<int64_t>(rank.value);
  }
  return rank_;
}

float AdapterConfig::scale_of(std::string_view module) const {
  double alpha = alpha_;
  for (const Override& one : alphas_) {
    if (!one.pattern.matches(module)) continue;
    alpha = one.value;
    break;
  }
  const auto rank = static_cast<double>(rank_of(module));
  return static_cast<float>(alpha / (is_rank_stabilized_ ? std::sqrt(rank) : rank));
}

std::vector<std::string> AdapterConfig::parameters_of(std::string_view module) const {
  std::vector<std::string> found;
  for (const std::string& parameter : parameters_) {
    const size_t dot = parameter.rfind('.');
    const std::string name = parameter.substr(dot + 1);  // npos + 1 is 0
    // Without a module's name, only parameters that are known not to be linears can be meant.
    const std::string_view wanted =
        dot == std::string::npos ? "experts" : std::string_view(parameter).substr(0, dot);
    const bool ends_so = module.ends_with(wanted);
    const size_t before = module.size() - (ends_so ? wanted.size() : 0);
    if (ends_so && (before == 0 || module[before - 1] == '.'))
      found.push_back(fmt::format("{}.{}", module, name));
  }
  return found;
}

int64_t AdapterConfig::max_rank() const {
  auto most = static_cast<double>(rank_);
  for (const Override& rank : ranks_) most = std::max(most, rank.value);
  return static_cast<int64_t>(most);
}

}  // namespace quire
