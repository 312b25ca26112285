#include "server/pages/server_pages.h"

#include <boost/json/object.hpp>
#include <chrono>

#include "engine/async_engine.h"
#include "engine/observe/engine_stats.h"
#include "server/adapters/adapter_routes.h"
#include "server/door/server_state.h"
#include "server/http/metrics_text.h"
#include "server/keys/key_book.h"
#include "server/pages/docs_page.h"
#include "server/pages/page.h"

namespace quire::server {
namespace {

namespace json = boost::json;

double unix_now_s() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

HttpResponse health(const HttpRequest&, const PrepareContext& context) {
  return {context.model.engine->healthy() ? 200 : 503, "", "", {}};
}

HttpResponse live(const HttpRequest&, const PrepareContext&) { return {200, "", "", {}}; }

HttpResponse ready(const HttpRequest&, const PrepareContext& context) {
  return {context.model.engine->healthy() && !context.server->is_draining.load() ? 200 : 503,
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

HttpResponse metrics(const HttpRequest&, const PrepareContext& context) {
  MetricsWriter threads;
  threads.family("quire:http_cpu_seconds_total", "counter",
                 "CPU time of the threads that read requests and write answers.");
  threads.sample("quire:http_cpu_seconds_total", {}, context.server->thread_times.cpu_seconds());
  return {
      200,
      "text/plain; version=0.0.4; charset=utf-8",
      engine_metrics_text(context.model.engine->stats_by_engine(), context.model.names.front(),
                          unix_now_s()) +
          adapter_metrics_text(context.model) + context.server->http_metrics.text() +
          threads.take() +
          (context.server->keys != nullptr ? context.server->keys->metrics_text() : std::string()),
      {}};
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

const Route kRoutes[] = {
    {"/health", "GET", K::kOpen, M::kInline, kHealth, "200 while the engine lives."},
    {"/ping", "GET POST", K::kOpen, M::kInline, kHealth, "As /health."},
    {"/live", "GET", K::kOpen, M::kInline, kLive, "200 while the process answers."},
    {"/ready", "GET", K::kOpen, M::kInline, kReady, "200 while new work is taken."},
    {"/version", "GET", K::kGuarded, M::kInline, kVersion, "This program's version."},
    {"/load", "GET", K::kGuarded, M::kInline, kLoad, "Generations being answered now."},
    {"/metrics", "GET", K::kGuarded, M::kInline, kMetrics, "Prometheus metrics."},
    {"/openapi.json", "GET", K::kGuarded, M::kInline, kOpenapi, "This API, described."},
    {"/docs", "GET", K::kGuarded, M::kInline, kDocs, "This API, for people."},
};

}  // namespace

std::span<const Route> server_routes() { return kRoutes; }

}  // namespace quire::server
