// The routes: who may call what, and what answers. One object serves all connections; its state is
// immutable but for counters.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "server/generation/door.h"
#include "server/http/api_error.h"
#include "server/http/auth.h"
#include "server/http/connection_handler.h"
#include "server/http/cors.h"
#include "server/http/http_metrics.h"
#include "server/http/server_options.h"
#include "server/http/thread_times.h"
#include "server/http/worker_pool.h"
#include "server/openai/prepare.h"
#include "server/openai/served_model.h"

namespace quire::server {

class Api;
class BackgroundCalls;
class BatchQueue;
class KeyBook;
class KeyUse;
class ResponseStore;

enum class RouteKind : uint8_t {
  kOpen,  // needs no key
  kGuarded,
  kWork,  // guarded, and refused while draining or when the engine is dead
};

// How a route is answered: at once on the strand; on a worker when the body is large; always on a
// worker, because it waits for the engine; when the engine has paused, whom no thread waits for; or
// by a stream of its own; or as its door does it.
enum class RouteMode : uint8_t { kInline, kBySize, kWorker, kPause, kGeneration, kPooling, kDoor };

// What must be switched on for a route to be there.
enum class RouteSwitch : uint8_t { kNone, kDevEndpoints, kTokenizerInfo, kLoraDir, kFilesDir };

struct Route {
  std::string_view path;     // a trailing * takes any rest
  std::string_view methods;  // "GET", "GET POST"; HEAD comes with GET
  RouteKind kind;
  RouteMode mode;
  HttpResponse (Api::*answer)(const HttpRequest&) const;  // null for kPause and later modes
  const Door& door;
  std::string_view summary;
  RouteSwitch needs = RouteSwitch::kNone;
};
std::span<const Route> route_table();
// The web page, and the views of this engine behind it.
bool is_page(const Route& route);

// What a server has beside its model, where it is told to.
struct ApiParts {
  std::shared_ptr<BatchQueue> batches = nullptr;  // null: no routes for files and batches
  std::shared_ptr<KeyBook> keys = nullptr;        // null: no keys but those of the options
};

class Api final : public RequestHandler {
 public:
  // `workers` outlives the Api's use.
  Api(ServerOptions options, ServedModel model, WorkerPool& workers, ApiParts parts = {});

  std::optional<HttpResponse> on_head(const HttpRequest& head) override;
  void on_request(HttpRequest request, std::shared_ptr<ReplyChannel> reply) override;
  bool work_waits() const override;
  void on_done(const HttpRequest& head, int status, double seconds) override;

  void begin_drain() { draining_.store(true); }
  int64_t now_us() const { return model_.engine->clock().now_us(); }
  int64_t num_ongoing() const { return num_ongoing_->load(); }
  // Of the threads that serve it; /metrics shows them.
  ThreadTimes& thread_times() { return thread_times_; }

  // Answers of the routes. Any thread.
  HttpResponse models(const HttpRequest& request) const;
  HttpResponse model_by_id(const HttpRequest& request) const;
  HttpResponse tokenize(const HttpRequest& request) const;
  HttpResponse detokenize(const HttpRequest& request) const;
  HttpResponse health(const HttpRequest& request) const;
  HttpResponse ready(const HttpRequest& request) const;
  HttpResponse live(const HttpRequest& request) const;
  HttpResponse version(const HttpRequest& request) const;
  HttpResponse load(const HttpRequest& request) const;
  HttpResponse metrics(const HttpRequest& request) const;
  HttpResponse openapi(const HttpRequest& request) const;
  HttpResponse docs(const HttpRequest& request) const;
  HttpResponse web(const HttpRequest& request) const;
  HttpResponse quire_stats(const HttpRequest& request) const;
  HttpResponse kv_blocks(const HttpRequest& request) const;
  HttpResponse steps(const HttpRequest& request) const;
  HttpResponse kv_explore(const HttpRequest& request) const;
  HttpResponse tokenizer_info(const HttpRequest& request) const;
  HttpResponse adapters(const HttpRequest& request) const;
  HttpResponse files(const HttpRequest& request) const;
  HttpResponse control(const HttpRequest& request) const;
  // What the route's door answers.
  HttpResponse door_page(const HttpRequest& request) const;

 private:
  // A request's path without the server's root path.
  std::string_view local_path(std::string_view path) const;
  // Null: there is none, or this server does not have it.
  const Route* route_of(std::string_view path) const;
  bool is_on(RouteSwitch needed) const;
  bool on_io_thread(const Route& route, const HttpRequest& request) const;
  bool allowed(const Route* route, const HttpRequest& head) const;
  std::optional<ApiError> refusal(const HttpRequest& head, const Route* route) const;
  HeaderList common_headers(const HttpRequest& request) const;
  HttpResponse preflight(const HttpRequest& head, const Route* route) const;
  void answer(const Route& route, HttpRequest request, std::shared_ptr<ReplyChannel> reply);
  void generate(const Route& route, HttpRequest request, std::shared_ptr<ReplyChannel> reply);
  void pool(const Route& route, HttpRequest request, std::shared_ptr<ReplyChannel> reply);
  // Why the model cannot serve this route; nullopt: it can.
  std::optional<ApiError> wrong_model(const Route& route) const;
  void on_worker(const Door& door, const std::shared_ptr<ReplyChannel>& reply, HeaderList headers,
                 std::function<std::function<void()>()> work);
  void warn_rarely(const PreparedCall& call);
  // Held while a request is answered; the use of its key, if it has one, ends with it.
  std::shared_ptr<void> ongoing_guard(std::shared_ptr<KeyUse> use);
  // What the limits of the request's key say; null: it has none. x-ratelimit-* go to `headers`. May
  // give the request the key's priority.
  ApiResult<std::shared_ptr<KeyUse>> enter(HttpRequest& request, HeaderList& headers) const;
  PrepareContext prepare_context(int64_t arrival_us) const;

  const ServerOptions options_;
  const ServedModel model_;
  WorkerPool& workers_;
  const ApiParts parts_;
  const ApiKeys keys_;
  const CorsPolicy cors_;
  const std::string openapi_;
  HttpMetrics http_metrics_;
  ThreadTimes thread_times_;
  std::atomic<bool> draining_{false};
  std::atomic<int64_t> last_warning_s_{0};
  // Shared with the guards of running calls, which may outlive the Api by a moment.
  std::shared_ptr<std::atomic<int64_t>> num_ongoing_;
  std::shared_ptr<std::atomic<uint64_t>> held_answer_bytes_;  // shared with the calls
  std::shared_ptr<ResponseStore> responses_;                  // shared with the calls
  std::shared_ptr<BackgroundCalls> background_;  // ends first: its calls use what is above
};

}  // namespace quire::server
