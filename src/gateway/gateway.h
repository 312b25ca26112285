// A Gateway is an HTTP server in front of other servers: it sends each request to one of them and
// passes the answer on as it comes.
//
//   Gateway gateway(options);
//   QUIRE_RETURN_IF_ERROR(gateway.start());
//   gateway.set_backends(addresses);
//   …
//   gateway.begin_drain();                  // SIGTERM: no new requests; running ones continue
//   gateway.wait_idle(timeout_ms);
//   gateway.stop();
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gateway/backend_set.h"
#include "gateway/health_checker.h"
#include "gateway/proxy_call.h"
#include "server/http/metrics_text.h"
#include "server/http_listener.h"

namespace quire::gateway {

struct GatewayOptions {
  GatewayOptions();

  ServerOptions server;  // address and limits; the other members are not used
  RouterOptions router{.routing = Routing::kPrefixAware};
  HealthOptions health;
  server::ExporterOptions otlp;  // without endpoints no spans or metrics are sent
  std::chrono::milliseconds connect_timeout{2'000};
  std::chrono::milliseconds prefill_timeout{600'000};  // for the answer of a prefill server
  size_t prefill_bytes = 0;                            // smaller requests need no prefill server
};

class Gateway final : public server::RequestHandler {
 public:
  explicit Gateway(const GatewayOptions& options);
  ~Gateway() override;

  // kInvalidArgument: the address, or an endpoint of telemetry, is not valid.
  Status start();
  uint16_t port() const { return listener_.port(); }
  // Between start() and stop(), any thread may call this method and the following ones. A backend
  // gets requests once it has answered a health check.
  void set_backends(std::vector<BackendAddress> addresses);
  // Sets servers that only compute prompts, whose KV the other backends continue from (kv_legs.h).
  // When there are none, each request stays with one server.
  void set_prefill_backends(std::vector<BackendAddress> addresses);
  size_t num_healthy() const;
  size_t num_healthy_prefill() const;
  void begin_drain();
  // Waits until every request is answered, for at most timeout_ms. Returns whether that was
  // reached.
  bool wait_idle(int64_t timeout_ms) const;
  void stop();

  // RequestHandler
  std::optional<server::HttpResponse> on_head(const server::HttpRequest& head) override;
  void on_request(server::HttpRequest request,
                  std::shared_ptr<server::ReplyChannel> reply) override;
  bool work_waits() const override { return false; }
  void on_done(const server::HttpRequest& head, int status, double seconds) override;

 private:
  // Runs `work` on the gateway's thread and waits for it.
  template <typename Work>
  void on_thread(Work work) const;
  std::optional<server::HttpResponse> own_answer(const server::HttpRequest& request) const;
  std::string metrics_text() const;
  void append_backend_metrics(server::MetricsWriter& out) const;
  std::string backends_json() const;

  const server::ExporterOptions otlp_;
  std::shared_ptr<server::OtlpExporter> exporter_;  // shared with spans; null: no telemetry
  const std::chrono::milliseconds prefill_timeout_;
  const size_t prefill_bytes_;
  std::atomic<bool> draining_{false};
  std::array<char, 64 * 1024> scratch_{};
  GatewayCounts counts_;
  std::map<int, uint64_t> answers_;  // by status
  server::HttpListener listener_;    // its io_context must outlive the backends' connections
  // A Pool is a group of servers of one kind, with what the calls to them share.
  struct Pool {
    Pool(const GatewayOptions& options, const boost::asio::any_io_executor& executor,
         GatewayCounts& counts, std::span<char> scratch);
    BackendSet backends;
    HealthChecker health;
    ProxyContext context;
  };
  Pool pool_;
  Pool prefill_pool_;
};

}  // namespace quire::gateway
