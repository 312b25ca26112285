#include "facade/kv_cache/kv_transfer_config.h"

#include <algorithm>
#include <boost/json.hpp>
#include <string>

#include "base/log.h"

namespace quire {
namespace {

namespace json = boost::json;

constexpr std::string_view kKvTransferFlag = "--kv-transfer-config";
constexpr std::string_view kConnector = "QuireConnector";
// Keys of vLLM that have no effect, since KV goes through files.
constexpr std::string_view kWithoutEffect[] = {
    "engine_id", "kv_buffer_device",         "kv_buffer_size",
    "kv_rank",   "kv_parallel_size",         "kv_ip",
    "kv_port",   "kv_connector_module_path", "enable_permute_local_kv"};

Result<std::string> read_name(const json::object& config, std::string_view key,
                              std::string_view expected, std::string_view otherwise) {
  const json::value* const value = config.if_contains(key);
  if (value == nullptr || value->is_null()) {
    if (!otherwise.empty()) return std::string(otherwise);
    return invalid_argument("{}: {}: expected {}, got nothing", kKvTransferFlag, key, expected);
  }
  if (value->is_string()) return std::string(value->get_string());
  return invalid_argument("{}: {}: expected {}, got {}", kKvTransferFlag, key, expected,
                          json::serialize(*value));
}

Status read_extra(const json::value& value, KvHandoverOptions& options) {
  constexpr std::string_view kKey = "kv_connector_extra_config";
  if (value.is_null()) return {};
  if (!value.is_object())
    return invalid_argument("{}: {}: expected an object, got {}", kKvTransferFlag, kKey,
                            json::serialize(value));
  for (const auto& [key, item] : value.get_object()) {
    if (key != "kv_lease_duration")
      return invalid_argument("{}: {}: expected kv_lease_duration, got {}", kKvTransferFlag, kKey,
                              std::string_view(key));
    boost::system::error_code ec;
    const auto seconds = item.to_number<double>(ec);
    if (ec || !(seconds >= 1 && seconds <= 3600))
      return invalid_argument("{}: {}: expected 1 to 3600 seconds, got {}", kKvTransferFlag,
                              std::string_view(key), json::serialize(item));
    options.lease_us = static_cast<int64_t>(seconds * 1e6);
  }
  return {};
}

Status check_keys(const json::object& config) {
  constexpr std::string_view kKnown[] = {"kv_connector", "kv_role", "kv_load_failure_policy",
                                         "kv_connector_extra_config"};
  for (const auto& [key, value] : config) {
    const std::string_view name(key);
    if (std::find(std::begin(kKnown), std::end(kKnown), name) != std::end(kKnown)) continue;
    if (std::find(std::begin(kWithoutEffect), std::end(kWithoutEffect), name) ==
        std::end(kWithoutEffect)) {
      return invalid_argument(
          "{}: expected kv_connector, kv_role, kv_load_failure_policy and "
          "kv_connector_extra_config, got {}",
          kKvTransferFlag, name);
    }
    log_warn("{}: {} has no effect", kKvTransferFlag, name);
  }
  return {};
}

}  // namespace

Result<KvHandoverOptions> parse_kv_transfer_config(std::string_view text) {
  KvHandoverOptions options;
  if (text.empty()) return options;
  boost::system::error_code ec;
  const json::value value = json::parse(text, ec);
  if (ec || !value.is_object())
    return invalid_argument("{}: expected a JSON object, got {}", kKvTransferFlag, text);
  const json::object& config = value.get_object();
  QUIRE_RETURN_IF_ERROR(check_keys(config));
  QUIRE_ASSIGN_OR_RETURN(const std::string connector,
                         read_name(config, "kv_connector", kConnector, ""));
  if (connector != kConnector)
    return invalid_argument("{}: kv_connector: expected {}, got {}", kKvTransferFlag, kConnector,
                            connector);
  constexpr std::string_view kRoles = "kv_producer, kv_consumer or kv_both";
  QUIRE_ASSIGN_OR_RETURN(const std::string role, read_name(config, "kv_role", kRoles, ""));
  options.gives = role == "kv_producer" || role == "kv_both";
  options.takes = role == "kv_consumer" || role == "kv_both";
  if (!options.gives && !options.takes)
    return invalid_argument("{}: kv_role: expected {}, got {}", kKvTransferFlag, kRoles, role);
  constexpr std::string_view kPolicies = "fail or recompute";
  QUIRE_ASSIGN_OR_RETURN(const std::string policy,
                         read_name(config, "kv_load_failure_policy", kPolicies, "fail"));
  if (policy != "fail" && policy != "recompute")
    return invalid_argument("{}: kv_load_failure_policy: expected {}, got {}", kKvTransferFlag,
                            kPolicies, policy);
  options.recomputes = policy == "recompute";
  if (const json::value* const extra = config.if_contains("kv_connector_extra_config"))
    QUIRE_RETURN_IF_ERROR(read_extra(*extra, options));
  return options;
}

}  // namespace quire
