// Api handles the requests of all connections: each passes the gate, is answered by its route, and
// is counted. Its state does not change, except for counters.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "server/door/server_state.h"
#include "server/gate.h"
#include "server/http/connection_handler.h"
#include "server/http/server_options.h"
#include "server/http/worker_pool.h"
#include "server/models/model_host.h"
#include "server/pages/server_pages.h"
#include "server/route_runner.h"

namespace quire::server {

// The parts of a server besides its models, each of which is optional.
struct ApiParts {
  std::shared_ptr<BatchQueue> batches = nullptr;     // null: no routes for files and batches
  std::shared_ptr<KeyBook> keys = nullptr;           // null: no keys but those of the options
  std::shared_ptr<OtlpExporter> exporter = nullptr;  // null: no spans or metrics are sent
};

class Api final : public RequestHandler {
 public:
  // `workers` must outlive the Api.
  Api(ServerOptions options, std::shared_ptr<ModelHost> models, WorkerPool& workers,
      ApiParts parts = {});

  std::optional<HttpResponse> on_head(const HttpRequest& head) override;
  void on_request(HttpRequest request, std::shared_ptr<ReplyChannel> reply) override;
  bool work_waits() const override;
  void on_done(const HttpRequest& head, int status, double seconds) override;

  void begin_drain() { state_.is_draining.store(true); }
  int64_t now_us() const { return state_.models->clock().now_us(); }
  int64_t num_ongoing() const { return state_.num_ongoing->load(); }
  ThreadTimes& thread_times() { return state_.thread_times; }
  // Returns the text of /metrics.
  std::string metrics_text() const { return server::metrics_text(state_); }

 private:
  const ServerOptions options_;
  ServerState state_;
  Gate gate_;
  RouteRunner runner_;
};

}  // namespace quire::server
