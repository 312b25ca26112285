#include "facade/generation_config.h"

#include <boost/json.hpp>
#include <cmath>

namespace quire {
namespace {

namespace json = boost::json;

Status wrong(std::string_view file, std::string_view key, std::string_view expected,
             const json::value& got) {
  return invalid_argument("{}: {}: expected {}, got {}", file, key, expected, json::serialize(got));
}

Result<std::optional<float>> read_float(const json::object& config, std::string_view file,
                                        std::string_view key) {
  const json::value* v = config.if_contains(key);
  if (v == nullptr || v->is_null()) return std::optional<float>();
  boost::system::error_code ec;
  const double x = v->to_number<double>(ec);
  if (ec || !std::isfinite(x)) return wrong(file, key, "a finite number", *v);
  return std::optional<float>(static_cast<float>(x));
}

Result<std::optional<int32_t>> read_int(const json::object& config, std::string_view file,
                                        std::string_view key) {
  const json::value* v = config.if_contains(key);
  if (v == nullptr || v->is_null()) return std::optional<int32_t>();
  boost::system::error_code ec;
  const auto x = v->to_number<int32_t>(ec);
  if (ec) return wrong(file, key, "a 32-bit integer", *v);
  return std::optional<int32_t>(x);
}

// Reads one id or a list of ids.
Result<std::vector<TokenId>> read_ids(const json::object& config, std::string_view file,
                                      std::string_view key) {
  const json::value* v = config.if_contains(key);
  std::vector<TokenId> ids;
  if (v == nullptr || v->is_null()) return ids;
  const json::array one{*v};
  for (const json::value& id : v->is_array() ? v->get_array() : one) {
    boost::system::error_code ec;
    const auto n = id.to_number<TokenId>(ec);
    if (ec || n < 0) return wrong(file, key, "token ids >= 0", *v);
    ids.push_back(n);
  }
  return ids;
}

Result<json::object> parse_object(std::string_view text, std::string_view file) {
  boost::system::error_code ec;
  json::value value = json::parse(text, ec);
  if (ec) return invalid_argument("{}: expected JSON: {}", file, ec.message());
  if (!value.is_object()) return invalid_argument("{}: expected a JSON object", file);
  return std::move(value.get_object());
}

}  // namespace

Result<std::vector<TokenId>> parse_eos_token_ids(std::string_view text, std::string_view file) {
  QUIRE_ASSIGN_OR_RETURN(const json::object config, parse_object(text, file));
  return read_ids(config, file, "eos_token_id");
}

Result<GenerationConfig> parse_generation_config(std::string_view text, std::string_view file) {
  QUIRE_ASSIGN_OR_RETURN(const json::object config, parse_object(text, file));
  GenerationConfig out;
  QUIRE_ASSIGN_OR_RETURN(out.sampling.temperature, read_float(config, file, "temperature"));
  QUIRE_ASSIGN_OR_RETURN(out.sampling.top_p, read_float(config, file, "top_p"));
  QUIRE_ASSIGN_OR_RETURN(out.sampling.min_p, read_float(config, file, "min_p"));
  QUIRE_ASSIGN_OR_RETURN(out.sampling.repetition_penalty,
                         read_float(config, file, "repetition_penalty"));
  QUIRE_ASSIGN_OR_RETURN(out.sampling.top_k, read_int(config, file, "top_k"));
  QUIRE_ASSIGN_OR_RETURN(out.sampling.max_tokens, read_int(config, file, "max_new_tokens"));
  QUIRE_ASSIGN_OR_RETURN(out.eos_token_ids, read_ids(config, file, "eos_token_id"));
  return out;
}

std::string drop_invalid_defaults(SamplingDefaults& defaults) {
  std::string dropped;
  const auto check = [&](auto& value, const Status& status) {
    if (status.ok()) return;
    dropped += (dropped.empty() ? "" : "; ") + status.message();
    value.reset();
  };
  const auto check_param = [&](auto SamplingParams::*field, auto& value) {
    if (!value) return;
    SamplingParams params;
    params.*field = *value;
    check(value, params.validate(0, 0));
  };
  check_param(&SamplingParams::temperature, defaults.temperature);
  check_param(&SamplingParams::top_p, defaults.top_p);
  check_param(&SamplingParams::top_k, defaults.top_k);
  check_param(&SamplingParams::min_p, defaults.min_p);
  check_param(&SamplingParams::repetition_penalty, defaults.repetition_penalty);
  if (defaults.max_tokens && *defaults.max_tokens < 1) {
    check(defaults.max_tokens,
          invalid_argument("max_new_tokens: expected a number >= 1, got {}", *defaults.max_tokens));
  }
  return dropped;
}

}  // namespace quire
