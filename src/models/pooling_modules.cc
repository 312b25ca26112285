#include <boost/json/parse.hpp>

#include "models/config_reader.h"
#include "models/pooling_config.h"

namespace quire {
namespace {

Result<boost::json::value> parse_json(std::string_view text, std::string_view where) {
  boost::json::parse_options options;
  options.max_depth = 32;
  boost::json::error_code error;
  boost::json::value value = boost::json::parse({text.data(), text.size()}, error, {}, options);
  if (error) return invalid_argument("{}: not valid JSON: {}", where, error.message());
  return value;
}

struct PoolingMode {
  std::string_view key;   // older files: a flag for each
  std::string_view name;  // newer files: the value of pooling_mode
  std::optional<PoolingKind> kind;
};
constexpr PoolingMode kModes[] = {
    {"pooling_mode_cls_token", "cls", PoolingKind::kCls},
    {"pooling_mode_mean_tokens", "mean", PoolingKind::kMean},
    {"pooling_mode_max_tokens", "max", PoolingKind::kMax},
    {"pooling_mode_lasttoken", "lasttoken", PoolingKind::kLast},
    {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", std::nullopt},
    {"pooling_mode_weightedmean_tokens", "weightedmean", std::nullopt},
};

}  // namespace

Result<std::vector<SentenceModule>> parse_sentence_modules(std::string_view text) {
  QUIRE_ASSIGN_OR_RETURN(const boost::json::value value, parse_json(text, "modules.json"));
  if (!value.is_array()) return invalid_argument("modules.json: expected a list of modules");
  std::vector<SentenceModule> modules;
  for (const boost::json::value& entry : value.get_array()) {
    if (!entry.is_object()) return invalid_argument("modules.json: expected objects in the list");
    Status status;
    const ConfigReader reader(entry.get_object(), "modules.json", {}, status);
    const std::string type = reader.string("type", "");
    SentenceModule module{.path = reader.string("path", ""),
                          .kind = type.substr(type.rfind('.') + 1)};
    if (!status.ok()) return status;
    modules.push_back(std::move(module));
  }
  return modules;
}

Result<PoolingKind> parse_pooling_kind(std::string_view text, const std::string& where) {
  QUIRE_ASSIGN_OR_RETURN(const boost::json::value value, parse_json(text, where));
  if (!value.is_object()) return invalid_argument("{}: expected an object", where);
  Status status;
  const ConfigReader reader(value.get_object(), where, {}, status);
  const std::string mode = reader.has("pooling_mode") ? reader.string("pooling_mode", "") : "";
  const PoolingMode* found = nullptr;
  int num_found = 0;
  for (const PoolingMode& known : kModes) {
    if (known.name != mode && !reader.boolean(known.key, false)) continue;
    found = &known;
    ++num_found;
  }
  if (!reader.boolean("include_prompt", true))
    reader.fail("include_prompt: expected true, got false");
  if (!status.ok()) return status;
  if (num_found != 1 || !found->kind) {
    return unimplemented("{}: expected one of cls, mean, max and lasttoken, got {}", where,
                         num_found == 0   ? "none"
                         : num_found == 1 ? found->name
                                          : "several");
  }
  return *found->kind;
}

}  // namespace quire
