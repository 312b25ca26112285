#include "facade/kv_cache/kv_events.h"

#include <boost/json.hpp>
#include <chrono>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "facade/flags/json_flag.h"

namespace quire {
namespace {

namespace json = boost::json;

constexpr std::string_view kKvEventsFlag = "--kv-events-config";

Status read_text(std::string_view key, const json::value& value, std::string& out) {
  if (value.is_null()) return {};
  if (!value.is_string())
    return invalid_argument("{}: {}: expected a text, got {}", kKvEventsFlag, key,
                            json::serialize(value));
  out = value.get_string();
  return {};
}

template <typename T>
Status read_count(std::string_view key, const json::value& value, T& out) {
  boost::system::error_code ec;
  const auto count = value.to_number<int32_t>(ec);
  if (ec || count < 1)
    return invalid_argument("{}: {}: expected a number from 1 on, got {}", kKvEventsFlag, key,
                            json::serialize(value));
  out = count;
  return {};
}

Status read_format(const json::value& value, KvEventFormat& out) {
  if (value != "map" && value != "array")
    return invalid_argument("{}: event_format: expected map or array, got {}", kKvEventsFlag,
                            json::serialize(value));
  out = value == "map" ? KvEventFormat::kMap : KvEventFormat::kArray;
  return {};
}

Status read_key(std::string_view key, const json::value& value, KvEventsConfig& config,
                bool& is_enabled) {
  EventPublisherOptions& options = config.publisher;
  if (key == "enable_kv_cache_events") {
    if (!value.is_bool())
      return invalid_argument("{}: {}: expected true or false, got {}", kKvEventsFlag, key,
                              json::serialize(value));
    is_enabled = value.get_bool();
    return {};
  }
  if (key == "publisher") {
    if (value == "zmq" || value.is_null()) return {};
    return invalid_argument("{}: publisher: expected zmq, got {}", kKvEventsFlag,
                            json::serialize(value));
  }
  if (key == "endpoint") return read_text(key, value, options.endpoint);
  if (key == "replay_endpoint") return read_text(key, value, options.replay_endpoint);
  if (key == "topic") return read_text(key, value, options.topic);
  if (key == "buffer_steps") return read_count(key, value, options.buffer_steps);
  if (key == "hwm") return read_count(key, value, options.high_water_mark);
  if (key == "max_queue_size") return read_count(key, value, options.max_queue_size);
  if (key == "event_format") return read_format(value, config.format);
  return invalid_argument(
      "{}: expected enable_kv_cache_events, publisher, endpoint, replay_endpoint, topic, "
      "buffer_steps, hwm, max_queue_size and event_format, got {}",
      kKvEventsFlag, key);
}

double unix_time_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

Result<std::optional<KvEventsConfig>> parse_kv_events_config(std::string_view text) {
  KvEventsConfig config;
  bool is_enabled = false;
  if (!text.empty()) {
    QUIRE_ASSIGN_OR_RETURN(const json::object object, parse_json_flag(kKvEventsFlag, text));
    for (const auto& [key, item] : object)
      QUIRE_RETURN_IF_ERROR(read_key(key, item, config, is_enabled));
  }
  if (!is_enabled) return std::optional<KvEventsConfig>();
  return std::optional(std::move(config));
}

Status add_kv_events(std::string_view text, int32_t block_size, EngineOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const std::optional<KvEventsConfig> wanted, parse_kv_events_config(text));
  if (!wanted) return {};
  Result<std::unique_ptr<EventPublisher>> opened = EventPublisher::open(wanted->publisher);
  if (!opened.ok()) return opened.status().with_context(kKvEventsFlag);
  const std::shared_ptr<EventPublisher> publisher = std::move(*opened);
  log_info("KV events on {}{}", publisher->endpoint(),
           wanted->publisher.replay_endpoint.empty()
               ? ""
               : ", replayed on " + publisher->replay_endpoint());
  options.kv.enable_events = true;
  // Options are copied, so the copies share both; only the engine's thread calls it.
  options.on_kv_events = [publisher, batches = std::make_shared<KvEventBatches>(
                                         block_size, options.kv.hash_seed, wanted->format)](
                             const std::vector<KvEvent>& events) {
    std::string batch = batches->encode(events, unix_time_s());
    if (!batch.empty()) publisher->publish(std::move(batch));
  };
  return {};
}

}  // namespace quire
