#include "weights/quant/quant_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cmath>

#include "weights/tensors/file_text.h"

namespace quire {
namespace {

namespace json = boost::json;

constexpr int64_t kMaxExtent = int64_t{1} << 20;
constexpr int64_t kNvfp4Group = 16;
constexpr size_t kMaxRules = 65536;
constexpr size_t kMaxConfigBytes = size_t{16} << 20;

std::string text_of(const json::string& text) { return std::string(text.data(), text.size()); }

std::string shown(const json::value& value) {
  constexpr size_t kMaxShown = 60;
  std::string text = json::serialize(value);
  return text.size() > kMaxShown ? text.substr(0, kMaxShown) + "…" : text;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return text;
}

}  // namespace

std::string QuantScheme::description() const {
  std::string text = is_float ? fmt::format("fp{}", bits) : fmt::format("int{}", bits);
  if (block_rows) {
    text += fmt::format(" in blocks of {} x {}", *block_rows, group_size.value_or(0));
  } else if (group_size && *group_size > 0) {
    text += fmt::format(" in groups of {}", *group_size);
  }
  if (!symmetric) text += ", asymmetric";
  if (act_order) text += ", activation order";
  if (activations == QuantActivations::kDynamic) text += ", dynamic activations";
  if (activations == QuantActivations::kStatic) text += ", static activations";
  return text;
}

// The Parser reads fields and keeps the first error.
class QuantConfig::Parser {
 public:
  explicit Parser(std::string_view where) : where_(where) {}

  Result<QuantConfig> run(const json::object& object) {
    const std::string method = lower(string(object, "quant_method", guess_method(object)));
    if (method == "awq") {
      read_awq(object);
    } else if (method == "gptq") {
      read_gptq(object);
    } else if (method == "fp8" || method == "fbgemm_fp8") {
      read_fp8(object);
    } else if (method == "mxfp4") {
      config_.method_ = QuantMethod::kMxfp4;  // the tensors say the rest
    } else if (method == "bitnet") {
      read_bitnet(object);
    } else if (method == "modelopt") {
      read_modelopt(object);
    } else if (method == "compressed-tensors") {
      read_compressed_tensors(object);
    } else {
      refuse(
          "quant_method: expected awq, gptq, fp8, compressed-tensors, mxfp4, bitnet or modelopt "
          "(FP8, NVFP4), got '{}'",
          method);
    }
    if (!status_.ok()) return one_line(status_);
    return std::move(config_);
  }

 private:
  template <typename... Args>
  void fail(fmt::format_string<Args...> format, Args&&... args) {
    if (status_.ok()) {
      status_ =
          invalid_argument("{}: {}", where_, fmt::format(format, std::forward<Args>(args)...));
    }
  }
  template <typename... Args>
  void refuse(fmt::format_string<Args...> format, Args&&... args) {
    if (status_.ok()) {
      status_ = unimplemented("{}: {}", where_, fmt::format(format, std::forward<Args>(args)...));
    }
  }

  // Returns the method of a file of older tools, which has one method's fields but not its name.
  static std::string_view guess_method(const json::object& object) {
    if (object.contains("quantization")) return "modelopt";
    if (object.contains("w_bit")) return "awq";
    return object.contains("desc_act") ? "gptq" : "";
  }

  // Returns nullptr when the field is absent or null.
  static const json::value* find(const json::object& object, std::string_view key) {
    const json::value* value = object.if_contains({key.data(), key.size()});
    return value == nullptr || value->is_null() ? nullptr : value;
  }
  std::string string(const json::object& object, std::string_view key, std::string_view fallback) {
    const json::value* value = find(object, key);
    if (value == nullptr) return std::string(fallback);
    if (value->is_string()) return text_of(value->get_string());
    fail("{}: expected a string, got {}", key, shown(*value));
    return std::string(fallback);
  }
  bool boolean(const json::object& object, std::string_view key, bool fallback) {
    const json::value* value = find(object, key);
    if (value == nullptr) return fallback;
    if (value->is_bool()) return value->get_bool();
    fail("{}: expected true or false, got {}", key, shown(*value));
    return fallback;
  }
  std::optional<int64_t> integer(const json::object& object, std::string_view key, int64_t min,
                                 int64_t max) {
    const json::value* value = find(object, key);
    if (value == nullptr) return std::nullopt;
    json::error_code error;
    const auto number = value->to_number<int64_t>(error);
    if (!error && number >= min && number <= max) return number;
    fail("{}: expected an integer in [{}, {}], got {}", key, min, max, shown(*value));
    return std::nullopt;
  }
  const json::object* object(const json::object& parent, std::string_view key) {
    const json::value* value = find(parent, key);
    if (value == nullptr) return nullptr;
    if (value->is_object()) return &value->get_object();
    fail("{}: expected an object, got {}", key, shown(*value));
    return nullptr;
  }

  // Returns -1 or a positive number; 0 is neither.
  std::optional<int64_t> group_size(const json::object& object, std::string_view key) {
    const auto size = integer(object, key, -1, kMaxExtent);
    if (size == 0) fail("{}: expected -1 or a positive number, got 0", key);
    return size;
  }

  void read_awq(const json::object& object) {
    config_.method_ = QuantMethod::kAwq;
    const std::string version = lower(string(object, "version", "gemm"));
    if (version != "gemm") refuse("version: expected gemm for awq, got '{}'", version);
    QuantScheme scheme;
    const bool old_keys = find(object, "bits") == nullptr;
    scheme.bits = static_cast<int>(integer(object, old_keys ? "w_bit" : "bits", 1, 16).value_or(4));
    if (scheme.bits != 4) refuse("bits: expected 4 for awq, got {}", scheme.bits);
    const bool old_group = find(object, "group_size") == nullptr;
    scheme.group_size = group_size(object, old_group ? "q_group_size" : "group_size").value_or(128);
    scheme.symmetric = !boolean(object, "zero_point", true);
    config_.all_linear_ = scheme;
  }

  // Reads the fields of GPTQ, which `dynamic` may override for some modules.
  void read_gptq_fields(const json::object& object, QuantScheme& scheme) {
    scheme.bits = static_cast<int>(integer(object, "bits", 1, 16).value_or(scheme.bits));
    if (scheme.bits != 2 && scheme.bits != 3 && scheme.bits != 4 && scheme.bits != 8) {
      fail("bits: expected 2, 3, 4 or 8 for gptq, got {}", scheme.bits);
    }
    if (const auto size = group_size(object, "group_size")) scheme.group_size = *size;
    scheme.symmetric = boolean(object, "sym", scheme.symmetric);
    scheme.act_order = boolean(object, "desc_act", scheme.act_order);
  }

  void read_gptq(const json::object& object) {
    config_.method_ = QuantMethod::kGptq;
    const bool named = find(object, "checkpoint_format") != nullptr;
    const std::string format = string(object, named ? "checkpoint_format" : "format", "gptq");
    if (format != "gptq" && format != "gptq_v2") {
      refuse("checkpoint_format: expected gptq or gptq_v2, got '{}'", format);
    }
    if (boolean(object, "is_marlin_format", false)) refuse("is_marlin_format: not read");
    QuantScheme scheme;
    scheme.zeros_less_one = format == "gptq";
    if (find(object, "bits") == nullptr) fail("bits: expected an integer, got nothing");
    if (find(object, "group_size") == nullptr) fail("group_size: expected an integer, got nothing");
    scheme.bits = 4;
    read_gptq_fields(object, scheme);
    config_.all_linear_ = scheme;
    const json::object* dynamic = this->object(object, "dynamic");
    if (dynamic == nullptr || !status_.ok()) return;
    for (const auto& [key, value] : *dynamic) {
      const std::string_view text(key.data(), key.size());
      // Such modules are not quantized, which their tensors show.
      if (text.starts_with("-:")) continue;
      if (!value.is_object()) return fail("dynamic: expected an object, got {}", shown(value));
      QuantScheme special = scheme;
      read_gptq_fields(value.get_object(), special);
      add_regex(text.substr(text.starts_with("+:") ? 2 : 0), special);
    }
  }

  void read_fp8(const json::object& object) {
    config_.method_ = QuantMethod::kFp8;
    QuantScheme scheme{.bits = 8, .is_float = true};
    scheme.activations = activation_scheme(string(object, "activation_scheme", "dynamic"));
    if (const json::value* block = find(object, "weight_block_size")) {
      const auto extents = block_extents("weight_block_size", *block);
      scheme.block_rows = extents[0];
      scheme.group_size = extents[1];
    }
    config_.all_linear_ = scheme;
  }

  void read_modelopt(const json::object& top) {
    config_.method_ = QuantMethod::kFp8;
    const json::object* inner = object(top, "quantization");
    const std::string algorithm = string(inner != nullptr ? *inner : top, "quant_algo", "");
    if (algorithm != "FP8" && algorithm != "NVFP4") {
      refuse("quant_algo: expected FP8 or NVFP4 for modelopt, got '{}'", algorithm);
    }
    QuantScheme scheme{.bits = 8, .is_float = true, .activations = QuantActivations::kStatic};
    if (algorithm == "NVFP4") {
      scheme.bits = 4;
      scheme.group_size =
          group_size(inner != nullptr ? *inner : top, "group_size").value_or(kNvfp4Group);
    }
    config_.all_linear_ = scheme;
  }

  // Reads BitNet, which has two classes of linear layers: one multiplies by the scale, the other
  // divides.
  void read_bitnet(const json::object& object) {
    config_.method_ = QuantMethod::kBitNet;
    const std::string kind = string(object, "linear_class", "bitlinear");
    if (kind != "bitlinear" && kind != "autobitlinear")
      fail("linear_class: expected bitlinear or autobitlinear, got '{}'", kind);
    const std::string mode = string(object, "quantization_mode", "offline");
    if (mode != "offline") {
      refuse("quantization_mode: expected offline (weights that are stored packed), got '{}'",
             mode);
    }
    if (boolean(object, "use_rms_norm", false)) refuse("use_rms_norm: expected false, got true");
    config_.all_linear_ = QuantScheme{.bits = 2, .scale_divides = kind == "bitlinear"};
  }

  QuantActivations activation_scheme(const std::string& name) {
    if (name == "dynamic") return QuantActivations::kDynamic;
    if (name != "static") fail("activation_scheme: expected dynamic or static, got '{}'", name);
    return QuantActivations::kStatic;
  }

  std::array<int64_t, 2> block_extents(std::string_view key, const json::value& value) {
    std::array<int64_t, 2> extents{1, 1};
    bool good = value.is_array() && value.get_array().size() == 2;
    for (size_t i = 0; good && i < 2; ++i) {
      json::error_code error;
      extents[i] = value.get_array()[i].to_number<int64_t>(error);
      good = !error && extents[i] > 0 && extents[i] <= kMaxExtent;
    }
    if (good) return extents;
    fail("{}: expected [rows, columns], got {}", key, shown(value));
    return {1, 1};
  }

  void read_compressed_tensors(const json::object& object) {
    config_.method_ = QuantMethod::kCompressedTensors;
    const std::string format = string(object, "format", "dense");
    check_format(format);
    if (const json::object* sparsity = this->object(object, "sparsity_config")) {
      const std::string layout = string(*sparsity, "format", "dense");
      if (layout != "dense") refuse("sparsity_config: format: expected dense, got '{}'", layout);
    }
    const json::object* groups = this->object(object, "config_groups");
    if (groups == nullptr) return fail("config_groups: expected an object, got nothing");
    for (const auto& [name, value] : *groups) {
      if (!value.is_object()) {
        return fail("config_groups: {}: expected an object, got {}", std::string_view(name),
                    shown(value));
      }
      read_group(std::string_view(name.data(), name.size()), value.get_object());
      if (!status_.ok()) return;
    }
    // Names have precedence over expressions, and both over classes.
    std::stable_partition(rules_.begin(), rules_.end(),
                          [](const auto& rule) { return rule.second; });
    for (auto& [rule, is_name] : rules_) config_.rules_.push_back(std::move(rule));
  }

  void check_format(std::string_view format) {
    constexpr std::string_view kKnown[] = {
        "pack-quantized",  "int-quantized",        "float-quantized",
        "naive-quantized", "nvfp4-pack-quantized", "mxfp4-pack-quantized",
        "mxfp8-quantized", "mixed-precision",      "dense"};
    if (std::find(std::begin(kKnown), std::end(kKnown), format) == std::end(kKnown)) {
      refuse("format: expected one of {}, got '{}'", fmt::join(kKnown, ", "), format);
    }
  }

  void read_group(std::string_view name, const json::object& group) {
    const json::object* weights = object(group, "weights");
    if (weights == nullptr) return;  // only activations are quantized
    if (find(group, "format") != nullptr) check_format(string(group, "format", ""));
    QuantScheme scheme = read_weights(*weights);
    if (const json::object* activations = object(group, "input_activations")) {
      // "local" means dynamic scales per group, true means dynamic scales per token.
      const json::value* dynamic = find(*activations, "dynamic");
      const bool fixed = dynamic == nullptr || (dynamic->is_bool() && !dynamic->get_bool());
      scheme.activations = fixed ? QuantActivations::kStatic : QuantActivations::kDynamic;
    }
    const json::value* targets = find(group, "targets");
    if (targets == nullptr || !targets->is_array() || targets->get_array().size() > kMaxRules) {
      return fail("config_groups: {}: targets: expected a list of names", name);
    }
    for (const json::value& target : targets->get_array()) {
      if (!target.is_string()) return fail("targets: expected names, got {}", shown(target));
      add_target(text_of(target.get_string()), scheme);
    }
  }

  QuantScheme read_weights(const json::object& weights) {
    QuantScheme scheme;
    scheme.bits = static_cast<int>(integer(weights, "num_bits", 1, 8).value_or(8));
    const std::string type = string(weights, "type", "int");
    scheme.is_float = type == "float";
    if (type != "int" && type != "float") fail("type: expected int or float, got '{}'", type);
    if (scheme.is_float && scheme.bits != 8 && scheme.bits != 4) {
      refuse("num_bits: expected 4 or 8 for floats, got {}", scheme.bits);
    }
    scheme.symmetric = boolean(weights, "symmetric", true);
    const auto size = group_size(weights, "group_size");
    const std::string strategy = string(weights, "strategy", size.value_or(-1) > 0 ? "group" : "");
    if (strategy == "group" || strategy == "tensor_group") {
      if (!size) fail("group_size: expected a number for strategy {}, got nothing", strategy);
      scheme.group_size = size.value_or(1);
    } else if (strategy == "block") {
      const json::value* block = find(weights, "block_structure");
      if (block == nullptr) {
        fail("block_structure: expected [rows, columns], got nothing");
      } else {
        const auto extents = block_extents("block_structure", *block);
        scheme.block_rows = extents[0];
        scheme.group_size = extents[1];
      }
    } else if (strategy == "channel" || strategy == "tensor" || strategy.empty()) {
      scheme.group_size = -1;
    } else {
      refuse("strategy: expected tensor, channel, group, tensor_group or block, got '{}'",
             strategy);
    }
    // Ordering by weight changes nothing in the file; ordering by group adds a g_idx.
    const json::value* order = find(weights, "actorder");
    scheme.act_order =
        order != nullptr && (order->is_string() ? order->get_string() == "group"
                                                : order->is_bool() && order->get_bool());
    return scheme;
  }

  void add_target(const std::string& target, const QuantScheme& scheme) {
    constexpr std::string_view kRegex = "re:";
    if (target == "Linear") {
      if (!config_.all_linear_) config_.all_linear_ = scheme;
    } else if (target.starts_with(kRegex)) {
      add_regex(std::string_view(target).substr(kRegex.size()), scheme);
    } else {
      rules_.push_back({{NamePattern::exact(target), scheme}, true});
    }
  }

  void add_regex(std::string_view text, const QuantScheme& scheme) {
    Result<NamePattern> pattern = NamePattern::regex(std::string(text));
    if (!pattern.ok()) return fail("{}", pattern.status().message());
    if (config_.method_ == QuantMethod::kCompressedTensors) {
      rules_.push_back({{std::move(*pattern), scheme}, false});
    } else {
      config_.rules_.push_back({std::move(*pattern), scheme});
    }
  }

  std::string_view where_;
  Status status_;
  QuantConfig config_;
  std::vector<std::pair<Rule, bool>> rules_;  // with whether the pattern is a name
};

Result<QuantConfig> QuantConfig::parse(std::string_view text, std::string_view where) {
  if (text.size() > kMaxConfigBytes) {
    return too_large("{}: expected at most {} bytes, got {}", where, kMaxConfigBytes, text.size());
  }
  json::parse_options options;
  options.max_depth = 32;
  json::error_code error;
  const json::value value = json::parse({text.data(), text.size()}, error, {}, options);
  if (error) return invalid_argument("{}: not valid JSON: {}", where, error.message());
  if (!value.is_object()) return invalid_argument("{}: expected an object", where);
  return Parser(where).run(value.get_object());
}

const QuantScheme* QuantConfig::scheme(std::string_view module) const {
  for (const Rule& rule : rules_) {
    if (rule.pattern.matches(module)) return &rule.scheme;
  }
  return all_linear_ ? &*all_linear_ : nullptr;
}

std::string QuantConfig::description() const {
  constexpr std::string_view kNames[] = {"none",  "awq",   "gptq", "fp8", "compressed-tensors",
                                         "mxfp4", "bitnet"};
  std::string text(kNames[static_cast<size_t>(method_)]);
  const QuantScheme* main = all_linear_      ? &*all_linear_
                            : rules_.empty() ? nullptr
                                             : &rules_[0].scheme;
  if (main != nullptr) text += ", " + main->description();
  if (all_linear_ ? !rules_.empty() : rules_.size() > 1) text += ", other schemes for some modules";
  return text;
}

}  // namespace quire
