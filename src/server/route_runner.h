// RouteRunner answers requests that the gate has accepted: by their door, at once or on a worker,
// or by a call to the engine.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "server/door/route.h"
#include "server/door/server_state.h"
#include "server/http/server_options.h"
#include "server/http/worker_pool.h"
#include "server/models/model_host.h"
#include "server/openai/prepare.h"
#include "server/telemetry/trace_context.h"

namespace quire::server {

class BackgroundCalls;
class KeyUse;
class ResponseStore;

class RouteRunner {
 public:
  // All arguments must outlive the runner.
  RouteRunner(const ServerOptions& options, ServerState& state, WorkerPool& workers);

  // Answers on `reply`, on its strand. `headers` are added to every answer.
  void run(const Route& route, HttpRequest request, HeaderList headers,
           std::shared_ptr<ReplyChannel> reply);

 private:
  // An Entry is what a request needs besides its fields to call the engine.
  struct Entry {
    ModelUse hosted;
    HeaderList headers;
    int64_t arrival_us = 0;
    std::shared_ptr<KeyUse> use;             // null: its key has no limits
    std::shared_ptr<void> ongoing;           // held while the request is answered
    std::optional<TraceContext> trace = {};  // nullopt: nobody asks for spans
  };

  // Finds the model of the folder that the request names. It may have to be loaded first.
  void find_model(const Route& route, HttpRequest request, HeaderList headers,
                  std::shared_ptr<ReplyChannel> reply);
  void acquire(const Route& route, const std::string& name, std::shared_ptr<HttpRequest> request,
               HeaderList headers, std::shared_ptr<ReplyChannel> reply);
  void run_on(ModelUse hosted, const Route& route, HttpRequest request, HeaderList headers,
              std::shared_ptr<ReplyChannel> reply);
  void answer(ModelUse hosted, const Route& route, HttpRequest request, HeaderList headers,
              std::shared_ptr<ReplyChannel> reply);
  void generate(const Route& route, HttpRequest request, Entry entry,
                std::shared_ptr<ReplyChannel> reply);
  void pool(const Route& route, HttpRequest request, Entry entry,
            std::shared_ptr<ReplyChannel> reply);
  std::function<void(const OutputDelta&)> watcher_of(const PreparedCall& prepared,
                                                     const Entry& entry) const;
  // Returns a function that writes the span of a request from its deltas. `facts` returns what is
  // known before. Empty: nobody asks for spans.
  template <typename Facts>
  std::function<void(const OutputDelta&)> span_of(const Entry& entry, Facts facts) const;
  void call_engine(PreparedCall prepared, Entry entry, std::shared_ptr<ReplyChannel> reply);
  // Checks the limits of the request's key, which go into the headers of the answer in either case.
  // The request may get the key's priority.
  ApiCheck enter(HttpRequest& request, Entry& entry) const;
  bool on_io_thread(const Route& route, const HttpRequest& request) const;
  // Calls `prepare`, here or on a worker, then `proceed` with its result, on the strand.
  template <typename Prepare, typename Proceed>
  void prepare_then(const Route& route, HttpRequest request, const HeaderList& headers,
                    const std::shared_ptr<ReplyChannel>& reply, Prepare prepare, Proceed proceed);
  void on_worker(const Door& door, const std::shared_ptr<ReplyChannel>& reply,
                 const HeaderList& headers, std::function<std::function<void()>()> work);
  PrepareContext context(const HostedModel& hosted, int64_t arrival_us) const;
  void warn_rarely(const PreparedCall& call);

  const ServerOptions& options_;
  ServerState& state_;
  WorkerPool& workers_;
  const ModelUse no_model_;  // for routes about the server, where it has a folder of models
  std::atomic<int64_t> last_warning_s_{0};
  std::shared_ptr<std::atomic<uint64_t>> held_answer_bytes_;  // shared with the calls
  std::shared_ptr<ResponseStore> responses_;                  // shared with the calls
  std::shared_ptr<BackgroundCalls> background_;  // ends first: its calls use the members above
};

}  // namespace quire::server
