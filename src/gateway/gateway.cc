#include "gateway/gateway.h"

#include <boost/asio/post.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <future>
#include <thread>

#include "base/check.h"
#include "gateway/kv_legs.h"
#include "gateway/prefill_call.h"
#include "server/http/api_error.h"

namespace quire::gateway {
namespace {

namespace asio = boost::asio;
namespace json = boost::json;
using server::HttpRequest;
using server::HttpResponse;

ServerOptions on_one_thread(ServerOptions options) {
  options.num_io_threads = 1;  // all code of the gateway relies on it
  return options;
}

}  // namespace

GatewayOptions::GatewayOptions() {
  server.limits.max_connections = 16'384;
  server.num_io_threads = 1;
}

Gateway::Pool::Pool(const GatewayOptions& options, const asio::any_io_executor& executor,
                    GatewayCounts& counts, std::span<char> scratch)
    : backends(options.router),
      health(executor, backends, options.health, scratch),
      context{.executor = executor,
              .backends = backends,
              .counts = counts,
              .scratch = scratch,
              .connect_timeout = options.connect_timeout,
              .on_failed = [this](const std::shared_ptr<Backend>& backend) {
                health.suspect(backend);
              }} {}

Gateway::Gateway(const GatewayOptions& options)
    : otlp_(options.otlp),
      prefill_timeout_(options.prefill_timeout),
      prefill_bytes_(options.prefill_bytes),
      listener_(on_one_thread(options.server), *this),
      pool_(options, listener_.io()->get_executor(), counts_, scratch_),
      prefill_pool_(options, listener_.io()->get_executor(), counts_, scratch_) {}

Gateway::~Gateway() { stop(); }

Status Gateway::start() {
  if (otlp_.is_on()) {
    QUIRE_ASSIGN_OR_RETURN(exporter_, server::OtlpExporter::create(otlp_));
  }
  QUIRE_RETURN_IF_ERROR(listener_.start(nullptr));
  on_thread([this] {
    pool_.health.start();
    prefill_pool_.health.start();
  });
  if (exporter_ == nullptr) return {};
  exporter_->start([this] {
    std::string text;
    on_thread([&] { text = metrics_text(); });
    return text;
  });
  return {};
}

template <typename Work>
void Gateway::on_thread(Work work) const {
  QUIRE_CHECK(listener_.is_running(), "the gateway's thread runs between start() and stop()");
  std::promise<void> done;
  asio::post(*listener_.io(), [&] {
    work();
    done.set_value();
  });
  done.get_future().wait();
}

void Gateway::set_backends(std::vector<BackendAddress> addresses) {
  on_thread([&] {
    pool_.backends.set(addresses);
    pool_.health.check_all();
  });
}

void Gateway::set_prefill_backends(std::vector<BackendAddress> addresses) {
  on_thread([&] {
    prefill_pool_.backends.set(addresses);
    prefill_pool_.health.check_all();
  });
}

size_t Gateway::num_healthy() const {
  size_t count = 0;
  on_thread([&] { count = pool_.backends.num_healthy(); });
  return count;
}

size_t Gateway::num_healthy_prefill() const {
  size_t count = 0;
  on_thread([&] { count = prefill_pool_.backends.num_healthy(); });
  return count;
}

void Gateway::begin_drain() {
  draining_.store(true);
  listener_.begin_drain();
}

bool Gateway::wait_idle(int64_t timeout_ms) const {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  while (true) {
    int64_t num_open = 0;
    on_thread([&] { num_open = counts_.num_open; });
    if (num_open == 0) return true;
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void Gateway::stop() {
  if (!listener_.is_running()) return;
  listener_.stop_listening();
  if (exporter_ != nullptr) exporter_->stop();  // it may be asking this thread for metrics
  on_thread([this] {
    pool_.health.stop();
    prefill_pool_.health.stop();
  });
  listener_.stop();
}

// --- Requests ---

std::optional<HttpResponse> Gateway::own_answer(const HttpRequest& request) const {
  constexpr std::string_view kText = "text/plain; version=0.0.4; charset=utf-8";
  if (request.method != "GET" && request.method != "HEAD") return std::nullopt;
  const bool takes_requests = pool_.backends.num_healthy() > 0 && !draining_.load();
  if (request.path == "/live") return HttpResponse{200, "", "", {}};
  if (request.path == "/ready" || request.path == "/health")
    return HttpResponse{takes_requests ? 200 : 503, "", "", {}};
  if (request.path == "/metrics") return HttpResponse{200, std::string(kText), metrics_text(), {}};
  if (request.path == "/quire/backends")
    return HttpResponse{200, "application/json", backends_json(), {}};
  return std::nullopt;
}

std::optional<HttpResponse> Gateway::on_head(const HttpRequest& head) {
  if (auto own = own_answer(head)) return own;
  if (!draining_.load()) return std::nullopt;
  server::ApiError error = server::api_error(503, "the gateway is about to stop");
  error.retry_after_s = 1;
  return server::error_response(error);
}

void Gateway::on_request(HttpRequest request, std::shared_ptr<server::ReplyChannel> reply) {
  const auto start = std::chrono::steady_clock::now();
  const std::shared_ptr<RouteSpan> span = RouteSpan::begin(exporter_, request);
  std::optional<std::string> first_leg;
  if (prefill_pool_.backends.num_healthy() > 0 && request.body.size() >= prefill_bytes_)
    first_leg = prefill_body(request);
  if (first_leg) {
    std::make_shared<PrefillCall>(prefill_pool_.context, pool_.context, std::move(request),
                                  std::move(*first_leg), prefill_timeout_, std::move(reply), span)
        ->start();
  } else {
    std::make_shared<ProxyCall>(pool_.context, std::move(request), std::move(reply), start, span)
        ->start();
  }
}

void Gateway::on_done(const HttpRequest&, int status, double) { ++answers_[status]; }

// --- Pages ---

void Gateway::append_backend_metrics(server::MetricsWriter& out) const {
  const auto by_backend = [&](std::string_view name, std::string_view type, std::string_view help,
                              auto value) {
    out.family(name, type, help);
    for (const Pool* const pool : {&pool_, &prefill_pool_}) {
      for (const auto& backend : pool->backends.all()) {
        // One server may be in both pools.
        const server::MetricLabel labels[] = {
            {"backend", backend->address().authority()},
            {"prefills", pool == &prefill_pool_ ? "true" : "false"}};
        out.sample(name, labels, static_cast<double>(value(*backend)));
      }
    }
  };
  by_backend("quire:route_backend_up", "gauge", "1: it takes requests.",
             [](const Backend& b) { return b.is_healthy() ? 1 : 0; });
  by_backend("quire:route_backend_requests_open", "gauge", "Requests that it has.",
             [](const Backend& b) { return b.num_open; });
  by_backend("quire:route_backend_requests_total", "counter", "Requests sent to it.",
             [](const Backend& b) { return b.counts.num_requests; });
  by_backend("quire:route_backend_failures_total", "counter",
             "Requests that it did not answer to their end.",
             [](const Backend& b) { return b.counts.num_failures; });
  by_backend("quire:route_backend_ejections_total", "counter",
             "Times that it stopped taking requests.",
             [](const Backend& b) { return b.counts.num_ejections; });
}

std::string Gateway::metrics_text() const {
  const auto real = [](auto x) { return static_cast<double>(x); };
  server::MetricsWriter out;
  const auto one = [&](std::string_view name, std::string_view type, std::string_view help,
                       double value) {
    out.family(name, type, help);
    out.sample(name, {}, value);
  };
  one("quire:route_requests_total", "counter", "Requests for backends.",
      real(counts_.num_requests));
  one("quire:route_prefills_total", "counter", "Requests whose prompts went to be computed first.",
      real(counts_.num_prefills));
  one("quire:route_prefills_failed_total", "counter",
      "Of those, the ones that another backend then computed as a whole.",
      real(counts_.num_prefills_failed));
  one("quire:route_retries_total", "counter", "Requests sent again, to another backend.",
      real(counts_.num_retries));
  one("quire:route_refused_total", "counter", "Requests that no backend took.",
      real(counts_.num_refused));
  one("quire:route_cut_total", "counter", "Answers that a backend did not end.",
      real(counts_.num_cut));
  one("quire:route_requests_open", "gauge", "Requests that are being answered.",
      real(counts_.num_open));
  one("quire:route_connections", "gauge", "Connections of clients.",
      real(listener_.num_connections()));
  append_backend_metrics(out);
  out.family("quire:route_answers_total", "counter", "Answers to clients, by status.");
  for (const auto& [status, count] : answers_) {
    const server::MetricLabel label{"status", std::to_string(status)};
    out.sample("quire:route_answers_total", {&label, 1}, real(count));
  }
  out.family("quire:route_choice_seconds", "histogram",
             "Choice of a server for a request, to its sending.");
  out.histogram("quire:route_choice_seconds", {}, counts_.choice_seconds);
  out.family("quire:route_first_byte_seconds", "histogram",
             "Arrival of a request to the first byte of its answer.");
  out.histogram("quire:route_first_byte_seconds", {}, counts_.first_byte_seconds);
  return out.take() + (exporter_ == nullptr ? std::string() : exporter_->metrics_text());
}

std::string Gateway::backends_json() const {
  json::array list;
  for (const Pool* const pool : {&pool_, &prefill_pool_}) {
    for (const auto& backend : pool->backends.all()) {
      list.push_back(json::object{{"address", backend->address().authority()},
                                  {"prefills", pool == &prefill_pool_},
                                  {"healthy", backend->is_healthy()},
                                  {"open", backend->num_open},
                                  {"requests_total", backend->counts.num_requests},
                                  {"failures_total", backend->counts.num_failures},
                                  {"ejections_total", backend->counts.num_ejections}});
    }
  }
  return json::serialize(
      json::object{{"backends", std::move(list)}, {"draining", draining_.load()}});
}

}  // namespace quire::gateway
