#include "facade/speculation/speculative_config.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cmath>
#include <limits>
#include <optional>

#include "base/log.h"
#include "facade/flags/json_flag.h"

namespace quire {
namespace {

namespace json = boost::json;

constexpr std::string_view kSpeculativeFlag = "--speculative-config";
constexpr int32_t kMaxDrafts = 64;
constexpr int32_t kDefaultTreeDepth = 24;

// Keys of vLLM that have no effect: drafts never change what is sampled, and the suffix drafter has
// a bound in bytes and drafts the latest continuation.
constexpr std::string_view kWithoutEffect[] = {
    "rejection_sample_method", "draft_sample_method", "disable_padded_drafter_batch",
    "suffix_decoding_max_cached_requests", "suffix_decoding_min_token_prob"};
constexpr std::string_view kKnown[] = {"method",
                                       "num_speculative_tokens",
                                       "prompt_lookup_min",
                                       "prompt_lookup_max",
                                       "suffix_decoding_max_tree_depth",
                                       "suffix_decoding_max_spec_factor",
                                       "num_speculative_tokens_per_batch_size",
                                       "enable_adaptive_verification",
                                       "model",
                                       "num_hidden_layers"};

struct MethodName {
  std::string_view name;
  SpeculativeMethod method;
};
constexpr MethodName kMethods[] = {
    {"suffix", SpeculativeMethod::kSuffix},          {"ngram", SpeculativeMethod::kNgram},
    {"draft_model", SpeculativeMethod::kDraftModel}, {"self", SpeculativeMethod::kSelf},
    {"medusa", SpeculativeMethod::kMedusa},          {"eagle", SpeculativeMethod::kEagle},
    {"eagle3", SpeculativeMethod::kEagle3},          {"mtp", SpeculativeMethod::kMtp},
};
// vLLM's names of MTP for families of models.
constexpr std::string_view kMtpAliases[] = {"deepseek_mtp", "glm4_moe_mtp", "qwen3_next_mtp"};

std::string known_methods() {
  std::string list;
  for (const MethodName& known : kMethods) list.append(list.empty() ? "" : ", ").append(known.name);
  return list;
}

bool contains(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Status check_keys(const json::object& config) {
  for (const auto& [key, value] : config) {
    if (contains(kKnown, key)) continue;
    if (!contains(kWithoutEffect, key)) {
      return invalid_argument("{}: expected keys of the methods {}, got {}", kSpeculativeFlag,
                              known_methods(), std::string_view(key));
    }
    log_warn("{}: {} has no effect", kSpeculativeFlag, std::string_view(key));
  }
  return {};
}

Result<std::optional<int32_t>> read_count(const json::object& config, std::string_view key) {
  const json::value* value = config.if_contains(key);
  if (value == nullptr || value->is_null()) return std::optional<int32_t>();
  boost::system::error_code ec;
  const auto count = value->to_number<int32_t>(ec);
  if (ec || count < 1 || count > kMaxDrafts) {
    return invalid_argument("{}: {}: expected 1 to {}, got {}", kSpeculativeFlag, key, kMaxDrafts,
                            json::serialize(*value));
  }
  return std::optional<int32_t>(count);
}

Result<double> read_spec_factor(const json::object& config) {
  constexpr std::string_view kKey = "suffix_decoding_max_spec_factor";
  const json::value* value = config.if_contains(kKey);
  if (value == nullptr || value->is_null()) return SuffixDrafter::Options().max_spec_factor;
  boost::system::error_code ec;
  const auto factor = value->to_number<double>(ec);
  if (ec || !std::isfinite(factor) || factor < 0 || factor > kMaxDrafts) {
    return invalid_argument("{}: {}: expected a number in [0, {}], got {}", kSpeculativeFlag, kKey,
                            kMaxDrafts, json::serialize(*value));
  }
  return factor;
}

// Reads vLLM's [[first, last, drafts], …] by the number of decoding requests. Each row's first must
// be greater than the last of the row before. A row holds up to the first of the next one, so its
// last has no further effect.
Status read_limits(const json::object& config, std::vector<DraftPlannerOptions::Limit>& out) {
  constexpr std::string_view kKey = "num_speculative_tokens_per_batch_size";
  const json::value* value = config.if_contains(kKey);
  if (value == nullptr || value->is_null()) return {};
  const auto wrong = [&] {
    return invalid_argument(
        "{}: {}: expected [[first, last, drafts], …] with ascending numbers of requests and 0 to "
        "{} "
        "drafts, got {}",
        kSpeculativeFlag, kKey, kMaxDrafts, json::serialize(*value));
  };
  if (!value->is_array()) return wrong();
  int64_t before = 0;
  for (const json::value& item : value->get_array()) {
    const json::array* row = item.if_array();
    if (row == nullptr || row->size() != 3) return wrong();
    std::array<int64_t, 3> numbers{};
    for (size_t i = 0; i < 3; ++i) {
      boost::system::error_code ec;
      numbers[i] = (*row)[i].to_number<int64_t>(ec);
      if (ec) return wrong();
    }
    const auto [first, last, drafts] = numbers;
    if (first <= before || last < first || last > std::numeric_limits<int32_t>::max() ||
        drafts < 0 || drafts > kMaxDrafts) {
      return wrong();
    }
    out.push_back({static_cast<int32_t>(first), static_cast<int32_t>(drafts)});
    before = last;
  }
  return {};
}

Result<bool> read_flag(const json::object& config, std::string_view key, bool otherwise) {
  const json::value* value = config.if_contains(key);
  if (value == nullptr || value->is_null()) return otherwise;
  if (value->is_bool()) return value->get_bool();
  return invalid_argument("{}: {}: expected true or false, got {}", kSpeculativeFlag, key,
                          json::serialize(*value));
}

Status needs_count(const SpeculativeConfig& out) {
  if (out.num_speculative_tokens > 0) return {};
  return invalid_argument("{}: num_speculative_tokens: expected 1 to {}, got none",
                          kSpeculativeFlag, kMaxDrafts);
}

// As in vLLM, both are 5 if neither is given, and each is the default of the other.
Status read_ngram(const json::object& config, SpeculativeConfig& out) {
  QUIRE_ASSIGN_OR_RETURN(const auto min, read_count(config, "prompt_lookup_min"));
  QUIRE_ASSIGN_OR_RETURN(const auto max, read_count(config, "prompt_lookup_max"));
  out.ngram.prompt_lookup_min = min.value_or(max.value_or(out.ngram.prompt_lookup_min));
  out.ngram.prompt_lookup_max = max.value_or(out.ngram.prompt_lookup_min);
  if (out.ngram.prompt_lookup_max < out.ngram.prompt_lookup_min) {
    return invalid_argument("{}: prompt_lookup_max: expected at least prompt_lookup_min {}, got {}",
                            kSpeculativeFlag, out.ngram.prompt_lookup_min,
                            out.ngram.prompt_lookup_max);
  }
  return needs_count(out);
}

// Reads the settings of drafters that are models.
Status read_model(const json::object& config, SpeculativeConfig& out) {
  if (out.method == SpeculativeMethod::kSelf) {
    constexpr std::string_view kKey = "num_hidden_layers";
    const json::value* value = config.if_contains(kKey);
    if (value == nullptr || value->is_null()) return needs_count(out);
    boost::system::error_code ec;
    out.num_hidden_layers = value->to_number<int64_t>(ec);
    if (ec || out.num_hidden_layers < 1) {
      return invalid_argument(
          "{}: {}: expected the number of layers that draft, or none for a copy of 4 bits, got {}",
          kSpeculativeFlag, kKey, json::serialize(*value));
    }
    return needs_count(out);
  }
  const json::value* model = config.if_contains("model");
  if (out.method == SpeculativeMethod::kMtp) {
    if (model == nullptr || model->is_null()) return {};
    return invalid_argument(
        "{}: model: expected none with mtp, whose layers are in the served model's files, got {}",
        kSpeculativeFlag, json::serialize(*model));
  }
  if (model == nullptr || !model->is_string() || model->get_string().empty()) {
    return invalid_argument("{}: model: expected the path of the model that drafts, got {}",
                            kSpeculativeFlag, model == nullptr ? "none" : json::serialize(*model));
  }
  out.model = std::string(model->get_string());
  return out.reads_hidden_states() ? Status() : needs_count(out);
}

Status read_suffix(const json::object& config, SpeculativeConfig& out) {
  QUIRE_ASSIGN_OR_RETURN(const auto depth, read_count(config, "suffix_decoding_max_tree_depth"));
  QUIRE_ASSIGN_OR_RETURN(out.suffix.max_spec_factor, read_spec_factor(config));
  if (out.num_speculative_tokens == 0) {
    out.num_speculative_tokens = depth.value_or(kDefaultTreeDepth);
  }
  return {};
}

Result<SpeculativeMethod> read_method(const json::object& config) {
  const json::value* method = config.if_contains("method");
  if (method != nullptr && method->is_string()) {
    const std::string_view name = method->get_string();
    if (contains(kMtpAliases, name)) return SpeculativeMethod::kMtp;
    const auto* known = std::ranges::find(kMethods, name, &MethodName::name);
    if (known != std::end(kMethods)) return known->method;
  }
  return invalid_argument("{}: method: expected one of {}, got {}", kSpeculativeFlag,
                          known_methods(), method == nullptr ? "none" : json::serialize(*method));
}

}  // namespace

Result<SpeculativeConfig> parse_speculative_config(std::string_view text) {
  QUIRE_ASSIGN_OR_RETURN(const json::object config, parse_json_flag(kSpeculativeFlag, text));
  QUIRE_RETURN_IF_ERROR(check_keys(config));
  SpeculativeConfig out;
  QUIRE_ASSIGN_OR_RETURN(const auto count, read_count(config, "num_speculative_tokens"));
  out.num_speculative_tokens = count.value_or(0);
  QUIRE_RETURN_IF_ERROR(read_limits(config, out.limits));
  QUIRE_ASSIGN_OR_RETURN(out.weigh_drafts, read_flag(config, "enable_adaptive_verification", true));
  QUIRE_ASSIGN_OR_RETURN(out.method, read_method(config));
  if (out.method == SpeculativeMethod::kNgram) {
    QUIRE_RETURN_IF_ERROR(read_ngram(config, out));
  } else if (out.method == SpeculativeMethod::kSuffix) {
    QUIRE_RETURN_IF_ERROR(read_suffix(config, out));
  } else {
    QUIRE_RETURN_IF_ERROR(read_model(config, out));
  }
  return out;
}

SpeculativeConfig default_speculative_config() {
  SpeculativeConfig config;
  config.num_speculative_tokens = kDefaultTreeDepth;
  return config;
}

std::shared_ptr<Drafter> make_drafter(const SpeculativeConfig& config) {
  if (config.method == SpeculativeMethod::kNgram) {
    return std::make_shared<NgramDrafter>(config.ngram);
  }
  return std::make_shared<SuffixDrafter>(config.suffix);
}

}  // namespace quire
