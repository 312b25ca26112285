// The HTTP server: OpenAI's API and others, and Quire's own pages, over one model or several.
//
//   auto server = HttpServer::create(options, model);
//   if (!server.ok()) …                       // a key, address or limit that cannot be
//   QUIRE_RETURN_IF_ERROR((*server)->start());
//   … (*server)->port() …
//   (*server)->begin_drain();                 // SIGTERM: /ready says 503, new work is refused,
//   running work goes on model.engine->drain(timeout_us);
//   (*server)->stop();                        // closes what is left
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "server/http/server_options.h"
#include "server/models/model_host.h"
#include "server/server_extras.h"

namespace quire {

class HttpServer {
 public:
  // What create() and start() would refuse of `options` alone, the address included: asked before a
  // model is loaded.
  static Status check(const ServerOptions& options, const ServerExtras& extras = {});
  static Result<std::unique_ptr<HttpServer>> create(ServerOptions options, ServedModel model,
                                                    const ServerExtras& extras = {});
  // Of several models; they stop with the server.
  static Result<std::unique_ptr<HttpServer>> create(ServerOptions options,
                                                    std::shared_ptr<server::ModelHost> models,
                                                    const ServerExtras& extras = {});
  virtual ~HttpServer() = default;  // stops

  // Binds, listens, starts the threads. Once. kUnavailable: the address cannot be bound.
  virtual Status start() = 0;
  // The TCP port in use; 0 for a Unix socket or before start().
  virtual uint16_t port() const = 0;
  // Reads the files of certificates, ServerExtras::api_key_file and the folder of models again. What a file with an error
  // says stays as it was; the first error is returned. Any thread, not a signal handler.
  virtual Status reload() = 0;
  // Refuses new work with 503 from now on. Any thread, not a signal handler.
  virtual void begin_drain() = 0;
  // Waits until no generation is being answered, at most timeout_ms. True when idle.
  virtual bool wait_idle(int64_t timeout_ms) const = 0;
  // Closes every connection (aborting what runs) and joins the threads. Idempotent.
  virtual void stop() = 0;
  virtual size_t num_connections() const = 0;
};

}  // namespace quire
