#include "server/pages/server_pages.h"

#include <boost/json/object.hpp>
#include <chrono>

#include "engine/async_engine.h"
#include "engine/observe/engine_stats.h"
#include "server/adapters/adapter_routes.h"
#include "server/http/metrics_text.h"
#include "server/keys/key_book.h"
#include "server/models/model_host.h"
#include "server/pages/docs_page.h"
#include "server/pages/page.h"
#include "server/telemetry/exporter.h"

namespace quire::server {
namespace {

namespace json = boost::json;

double unix_now_s() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

HttpResponse health(const HttpRequest&, const PrepareContext& context) {
  return {context.server->models->healthy() ? 200 : 503, "", "", {}};
}

HttpResponse live(const HttpRequest&, const PrepareContext&) { return {200, "", "", {}}; }

HttpResponse ready(const HttpRequest&, const PrepareContext& context) {
  return {context.server->models->healthy() && !context.server->is_draining.load() ? 200 : 503,
          "",
          "",
          {}};
}

HttpResponse version(const HttpRequest&, const PrepareContext&) {
  return json_page(json::object{{"version", QUIRE_VERSION}});
}

HttpResponse load(const HttpRequest&, const PrepareContext& context) {
  return json_page(json::object{{"server_load", context.server->num_ongoing->load()}});
}

// Returns the metrics of a folder's models in memory.
std::string folder_metrics_text(const std::vector<ModelStatus>& all) {
  MetricsWriter out;
  const auto gauge = [&](std::string_view name, std::string_view help, auto value_of) {
    out.family(name, "gauge", help);
    for (const ModelStatus& status : all) {
      out.sample(name, std::vector<MetricLabel>{{"model_name", status.name}},
                 static_cast<double>(value_of(status)));
    }
  };
  gauge("quire:model_loaded", "1 where the model is in memory.",
        [](const ModelStatus& s) { return s.state == ModelState::kLoaded ? 1 : 0; });
  gauge("quire:model_failed", "1 where the model could not be loaded.",
        [](const ModelStatus& s) { return s.state == ModelState::kFailed ? 1 : 0; });
  gauge("quire:model_memory_bytes", "Memory of the model; 0 where it is not loaded.",
        [](const ModelStatus& s) { return s.bytes; });
  gauge("quire:model_requests", "Requests that use the model or wait for it to be loaded.",
        [](const ModelStatus& s) { return s.num_requests; });
  return out.take();
}

HttpResponse metrics(const HttpRequest&, const PrepareContext& context) {
  return {200, "text/plain; version=0.0.4; charset=utf-8", metrics_text(*context.server), {}};
}

HttpResponse openapi(const HttpRequest&, const PrepareContext& context) {
  return {200, "application/json", context.server->openapi, {}};
}

HttpResponse docs(const HttpRequest&, const PrepareContext&) {
  return {200, "text/html; charset=utf-8", std::string(docs_page()), {}};
}

constexpr Door kHealth = page_door(&health);
constexpr Door kLive = page_door(&live);
constexpr Door kReady = page_door(&ready);
constexpr Door kVersion = page_door(&version);
constexpr Door kLoad = page_door(&load);
constexpr Door kMetrics = page_door(&metrics);
constexpr Door kOpenapi = page_door(&openapi);
constexpr Door kDocs = page_door(&docs);

using M = RouteMode;
using K = RouteKind;
using S = RouteSwitch;

const Route kServerRoutes[] = {
    {"/health", "GET", K::kOpen, M::kInline, kHealth, "200 while the engine lives.", S::kNone,
     RouteModel::kNone},
    {"/ping", "GET POST", K::kOpen, M::kInline, kHealth, "As /health.", S::kNone,
     RouteModel::kNone},
    {"/live", "GET", K::kOpen, M::kInline, kLive, "200 while the process answers.", S::kNone,
     RouteModel::kNone},
    {"/ready", "GET", K::kOpen, M::kInline, kReady, "200 while new work is taken.", S::kNone,
     RouteModel::kNone},
    {"/version", "GET", K::kGuarded, M::kInline, kVersion, "This program's version.", S::kNone,
     RouteModel::kNone},
    {"/load", "GET", K::kGuarded, M::kInline, kLoad, "Generations being answered now.", S::kNone,
     RouteModel::kNone},
    {"/metrics", "GET", K::kGuarded, M::kInline, kMetrics, "Prometheus metrics.", S::kNone,
     RouteModel::kNone},
    {"/openapi.json", "GET", K::kGuarded, M::kInline, kOpenapi, "This API, described.", S::kNone,
     RouteModel::kNone},
    {"/docs", "GET", K::kGuarded, M::kInline, kDocs, "This API, for people.", S::kNone,
     RouteModel::kNone},
};

}  // namespace

std::span<const Route> server_routes() { return kServerRoutes; }

std::string metrics_text(const ServerState& server) {
  MetricsWriter threads;
  threads.family("quire:http_cpu_seconds_total", "counter",
                 "CPU time of the threads that read requests and write answers.");
  threads.sample("quire:http_cpu_seconds_total", {}, server.thread_times.cpu_seconds());
  const std::vector<ModelStatus> all = server.models->list();
  std::vector<ModelEngines> engines;
  for (const ModelStatus& status : all) {
    if (status.loaded != nullptr)
      engines.push_back({status.name, status.loaded->model.engine->stats_by_engine()});
  }
  const ModelUse only = server.models->only();
  std::string text =
      engine_metrics_text(engines, unix_now_s()) +
      (only != nullptr ? adapter_metrics_text(only->model) : folder_metrics_text(all)) +
      server.http_metrics.text() + threads.take();
  if (server.keys != nullptr) text += server.keys->metrics_text();
  if (server.exporter != nullptr) text += server.exporter->metrics_text();
  return text;
}

}  // namespace quire::server
