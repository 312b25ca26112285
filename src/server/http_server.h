// HttpServer serves OpenAI's API, other APIs and Quire's own pages for one model or several.
//
//   auto server = HttpServer::create(options, model);
//   if (!server.ok()) …           // a key, an address or a limit is not valid
//   QUIRE_RETURN_IF_ERROR((*server)->start());
//   … (*server)->port() …
//   (*server)->begin_drain();     // SIGTERM: /ready is 503, new requests are refused
//   model.engine->drain(timeout_us);
//   (*server)->stop();            // closes what is left
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
  // Returns the error that create() or start() would return for `options` alone, including the
  // address. A program calls it before it loads a model.
  static Status check(const ServerOptions& options, const ServerExtras& extras = {});
  static Result<std::unique_ptr<HttpServer>> create(ServerOptions options, ServedModel model,
                                                    const ServerExtras& extras = {});
  // Serves several models, which stop with the server.
  static Result<std::unique_ptr<HttpServer>> create(ServerOptions options,
                                                    std::shared_ptr<server::ModelHost> models,
                                                    const ServerExtras& extras = {});
  virtual ~HttpServer() = default;  // stops the server

  // Binds, listens and starts the threads. It may be called once. kUnavailable: the address cannot
  // be bound.
  virtual Status start() = 0;
  // Returns the TCP port in use; 0 for a Unix socket or before start().
  virtual uint16_t port() const = 0;
  // Reads the certificate files, ServerExtras::api_key_file and the folder of models again. When
  // one of them has an error, its old content stays in use; the first error is returned. Any thread
  // may call it, but no signal handler.
  virtual Status reload() = 0;
  // Refuses new requests with 503 from this call on. Any thread may call it, but no signal handler.
  virtual void begin_drain() = 0;
  // Waits until no generation is being answered, for at most timeout_ms. Returns whether that was
  // reached.
  virtual bool wait_idle(int64_t timeout_ms) const = 0;
  // Closes every connection, which aborts running requests, and joins the threads. Idempotent.
  virtual void stop() = 0;
  virtual size_t num_connections() const = 0;
};

}  // namespace quire
