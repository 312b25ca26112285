#include "facade/parallel/eplb_config.h"

#include <boost/json.hpp>

#include "base/log.h"
#include "facade/flags/json_flag.h"

namespace quire {
namespace {

namespace json = boost::json;

constexpr std::string_view kEplbFlag = "--eplb-config";
constexpr int64_t kMostSteps = int64_t{1} << 40;
constexpr int64_t kMostExperts = int64_t{1} << 20;

struct Range {
  int64_t least, most;
};

Result<int64_t> read_count(std::string_view key, const json::value& value, const Range& range) {
  boost::system::error_code ec;
  const auto count = value.to_number<int64_t>(ec);
  if (!ec && count >= range.least && count <= range.most) return count;
  return invalid_argument("{}: {}: expected a number in [{}, {}], got {}", kEplbFlag, key,
                          range.least, range.most, json::serialize(value));
}

}  // namespace

Result<EplbConfig> parse_eplb_config(std::string_view text) {
  EplbConfig config;
  if (text.empty()) return config;
  QUIRE_ASSIGN_OR_RETURN(const json::object object, parse_json_flag(kEplbFlag, text));
  for (const auto& [key, value] : object) {
    const std::string_view name(key);
    if (name == "window_size") {
      QUIRE_ASSIGN_OR_RETURN(config.balance.window_size, read_count(name, value, {1, kMostSteps}));
    } else if (name == "step_interval") {
      QUIRE_ASSIGN_OR_RETURN(config.balance.step_interval,
                             read_count(name, value, {1, kMostSteps}));
    } else if (name == "num_redundant_experts") {
      QUIRE_ASSIGN_OR_RETURN(const int64_t count, read_count(name, value, {0, kMostExperts}));
      config.num_redundant_experts = static_cast<int32_t>(count);
    } else if (name == "log_balancedness" || name == "use_async" || name == "policy") {
      log_warn("{}: {} has no effect", kEplbFlag, name);
    } else {
      return invalid_argument(
          "{}: expected window_size, step_interval and num_redundant_experts, got {}", kEplbFlag,
          name);
    }
  }
  return config;
}

}  // namespace quire
