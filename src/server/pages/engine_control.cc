#include "server/pages/engine_control.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_from.hpp>
#include <charconv>
#include <vector>

#include "engine/async_engine.h"
#include "engine/observe/engine_stats.h"
#include "server/http/api_error.h"
#include "server/json/json_body.h"
#include "server/json/json_response.h"
#include "server/openai/request_fields.h"

namespace quire::server {
namespace {

namespace json = boost::json;

HttpResponse answer(const Status& status, const json::value& body) {
  return status.ok() ? json_response(body) : error_response(from_status(status));
}

HttpResponse empty_answer(const Status& status) {
  return status.ok() ? HttpResponse{200, "", "", {}} : error_response(from_status(status));
}

// Returns the values of a query's parameter in order, without decoding.
std::vector<std::string_view> query_values(std::string_view query, std::string_view name) {
  std::vector<std::string_view> values;
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    const size_t equals = std::min(pair.find('='), pair.size());
    if (pair.substr(0, equals) != name) continue;
    values.push_back(pair.substr(std::min(equals + 1, pair.size())));
  }
  return values;
}

ApiResult<bool> query_flag(const HttpRequest& request, std::string_view name, bool otherwise) {
  const auto values = query_values(request.query, name);
  if (values.empty()) return otherwise;
  for (const std::string_view yes : {"true", "True", "1"}) {
    if (values.back() == yes) return true;
  }
  for (const std::string_view no : {"false", "False", "0"}) {
    if (values.back() == no) return false;
  }
  return field_error(name, fmt::format("expected true or false, got {}", values.back()));
}

ApiResult<PauseMode> pause_mode(const HttpRequest& request) {
  const auto values = query_values(request.query, "mode");
  if (values.empty() || values.back() == "abort") return PauseMode::kAbort;
  if (values.back() == "wait") return PauseMode::kWait;
  if (values.back() == "keep") return PauseMode::kKeep;
  return field_error("mode", fmt::format("expected abort, wait or keep, got {}", values.back()));
}

using Respond = std::function<void(HttpResponse)>;

ApiCheck pause(const HttpRequest& request, AsyncEngine& engine, Respond respond) {
  ApiResult<PauseMode> mode = pause_mode(request);
  if (!mode.ok()) return mode.error();
  ApiResult<bool> waits = query_flag(request, "wait_for_inflight_requests", false);
  if (!waits.ok()) return waits.error();
  ApiResult<bool> clears = query_flag(request, "clear_cache", true);
  if (!clears.ok()) return clears.error();
  const PauseMode chosen = waits.value() ? PauseMode::kWait : mode.value();
  engine.pause(chosen, clears.value() && chosen != PauseMode::kKeep,
               [respond = std::move(respond)](const Status& status) {
                 respond(answer(status, json::object{{"status", "paused"}}));
               });
  return std::nullopt;
}

// In vLLM, level 2 also frees the weights' memory, and a trainer sends new weights later.
ApiCheck sleep(const HttpRequest& request, AsyncEngine& engine, Respond respond) {
  ApiResult<PauseMode> mode = pause_mode(request);
  if (!mode.ok()) return mode.error();
  int32_t level = 1;
  if (const auto values = query_values(request.query, "level"); !values.empty()) {
    const std::string_view text = values.back();
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), level);
    if (ec != std::errc() || end != text.data() + text.size()) {
      return field_error("level", fmt::format("expected 1 or 2, got {}", text));
    }
  }
  engine.sleep(level, mode.value(), [level, respond = std::move(respond)](const Status& status) {
    HttpResponse response = empty_answer(status);
    if (status.ok() && level == 2) {
      response.headers.emplace_back(kWarningHeader,
                                    "level 2 does what level 1 does: the weights stay in memory");
    }
    respond(std::move(response));
  });
  return std::nullopt;
}

// Each tag names a part of the memory to restore. The engine wakes when any tag but "weights" is
// given.
HttpResponse wake_up(const HttpRequest& request, AsyncEngine& engine) {
  const auto tags = query_values(request.query, "tags");
  bool wakes = tags.empty();
  for (const std::string_view tag : tags) {
    if (tag != "weights" && tag != "kv_cache" && tag != "scheduling") {
      return error_response(field_error(
          "tags", fmt::format("expected weights, kv_cache or scheduling, got {}", tag)));
    }
    wakes |= tag != "weights";  // the weights never left the memory
  }
  return empty_answer(wakes ? engine.wake_up() : Status());
}

HttpResponse abort_requests(const HttpRequest& request, AsyncEngine& engine,
                            const ServerLimits& limits) {
  ApiResult<json::object> body = parse_body(request, limits);
  if (!body.ok()) return error_response(body.error());
  std::vector<std::string> ids;
  if (const auto* const wanted = body.value().if_contains("request_ids");
      wanted != nullptr && !wanted->is_null()) {
    if (!wanted->is_array()) {
      return error_response(field_error(
          "request_ids", fmt::format("expected a list of strings, got {}", describe(*wanted))));
    }
    for (const json::value& id : wanted->get_array()) {
      if (!id.is_string()) {
        return error_response(field_error(
            "request_ids", fmt::format("expected a list of strings, got {}", describe(id))));
      }
      // Each id is tried in the form that answers print and in the form of the request.
      for (const std::string_view prefix : {"", "cmpl-", "chatcmpl-"}) {
        ids.push_back(std::string(prefix) + std::string(id.get_string()));
      }
    }
  }
  const Result<int64_t> aborted = engine.abort_requests(ids);
  return answer(aborted.status(),
                json::object{{"status", "aborted"}, {"aborted", aborted.ok() ? *aborted : 0}});
}

HttpResponse server_info(const HttpRequest& request, const ServedModel& model,
                         const ServerOptions& options) {
  const EngineStats stats = model.engine->stats();
  const json::object config{{"model", model.root},
                            {"served_model_names", json::value_from(model.names)},
                            {"max_model_len", model.max_model_len},
                            {"vocab_size", model.vocab_size},
                            {"max_num_seqs", stats.max_num_seqs},
                            {"max_num_batched_tokens", stats.max_num_batched_tokens},
                            {"block_size", stats.block_size},
                            {"num_gpu_blocks", stats.num_kv_blocks},
                            {"kv_cache_memory_bytes", stats.kv_bytes},
                            {"enable_prefix_caching", stats.prefix_caching},
                            {"max_logprobs", options.max_logprobs},
                            {"root_path", options.root_path}};
  const auto formats = query_values(request.query, "config_format");
  json::object out{{"version", QUIRE_VERSION}};
  if (formats.empty() || formats.back() == "text") {
    std::string text;
    for (const auto& member : config) {
      text += fmt::format("{}{}={}", text.empty() ? "" : ", ", std::string_view(member.key()),
                          json::serialize(member.value()));
    }
    out["vllm_config"] = text;
  } else if (formats.back() == "json") {
    out["vllm_config"] = config;
  } else {
    return error_response(
        field_error("config_format", fmt::format("expected text or json, got {}", formats.back())));
  }
  return json_response(out);
}

// This function waits for the engine.
HttpResponse control_engine(const HttpRequest& request, const PrepareContext& context) {
  AsyncEngine& engine = *context.model.engine;
  const std::string_view path = request.path;
  if (path == "/resume") return answer(engine.resume(), json::object{{"status", "resumed"}});
  if (path == "/is_paused") return json_response(json::object{{"is_paused", engine.paused()}});
  if (path == "/wake_up") return wake_up(request, engine);
  if (path == "/is_sleeping") {
    return json_response(json::object{{"is_sleeping", engine.sleep_level() > 0}});
  }
  if (path == "/reset_prefix_cache") return empty_answer(engine.reset_prefix_cache());
  if (path == "/abort_requests") return abort_requests(request, engine, context.options.limits);
  return server_info(request, context.model, context.options);
}

// /pause and /sleep may have to wait until running requests have ended, so no thread waits for
// them.
void pause_engine(const HttpRequest& request, const PrepareContext& context, HeaderList headers,
                  std::shared_ptr<ReplyChannel> reply) {
  const Respond respond = [headers = std::move(headers), reply](HttpResponse response) {
    response.headers.insert(response.headers.end(), headers.begin(), headers.end());
    auto shared = std::make_shared<HttpResponse>(std::move(response));
    reply->poster()([shared, reply] { reply->send(std::move(*shared)); });
  };
  AsyncEngine& engine = *context.model.engine;
  const ApiCheck error =
      request.path == "/sleep" ? sleep(request, engine, respond) : pause(request, engine, respond);
  if (error) respond(error_response(*error));
}

}  // namespace

std::optional<std::string> load_report(const HttpRequest& request, const AsyncEngine& engine) {
  const auto format = request.header("endpoint-load-metrics-format");
  if (!format) return std::nullopt;
  const bool as_json = equals_ignoring_case(*format, "json");
  if (!as_json && !equals_ignoring_case(*format, "text")) return std::nullopt;
  const EngineStats stats = engine.stats();
  const double usage = stats.kv_cache_usage;
  const int64_t waiting = stats.num_requests_waiting;
  return as_json ? fmt::format(
                       "JSON {{\"named_metrics\": {{\"kv_cache_usage_perc\": {}, "
                       "\"num_requests_waiting\": {}}}}}",
                       usage, waiting)
                 : fmt::format(
                       "TEXT named_metrics.kv_cache_usage_perc={}, "
                       "named_metrics.num_requests_waiting={}",
                       usage, waiting);
}

namespace {

constexpr Door kControlDoor = page_door(&control_engine);
constexpr Door kPauseDoor{nullptr, nullptr, &pause_engine, &error_response};

using M = RouteMode;
using K = RouteKind;
using S = RouteSwitch;

const Route kEngineControlRoutes[] = {
    {"/pause", "POST", K::kGuarded, M::kDoor, kPauseDoor,
     "Stop scheduling; mode: abort, wait or keep.", S::kDevEndpoints},
    {"/resume", "POST", K::kGuarded, M::kWorker, kControlDoor, "Go on after /pause.",
     S::kDevEndpoints},
    {"/is_paused", "GET", K::kGuarded, M::kWorker, kControlDoor, "Whether scheduling is stopped.",
     S::kDevEndpoints},
    {"/sleep", "POST", K::kGuarded, M::kDoor, kPauseDoor,
     "Stop scheduling, drop the prefix cache and give the KV blocks' memory back; the weights "
     "stay. "
     "level: 1 or 2, which do the same.",
     S::kDevEndpoints},
    {"/wake_up", "POST", K::kGuarded, M::kWorker, kControlDoor, "End /sleep.", S::kDevEndpoints},
    {"/is_sleeping", "GET", K::kGuarded, M::kWorker, kControlDoor, "Whether the engine sleeps.",
     S::kDevEndpoints},
    {"/reset_prefix_cache", "POST", K::kGuarded, M::kWorker, kControlDoor,
     "Forget all cached prefixes; fails while requests run.", S::kDevEndpoints},
    {"/abort_requests", "POST", K::kGuarded, M::kWorker, kControlDoor,
     "End the requests named by request_ids, or all.", S::kDevEndpoints},
    {"/server_info", "GET", K::kGuarded, M::kWorker, kControlDoor,
     "The engine's configuration; config_format: text or json.", S::kDevEndpoints},
};

}  // namespace

std::span<const Route> engine_control_routes() { return kEngineControlRoutes; }

}  // namespace quire::server
