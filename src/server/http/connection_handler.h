// RequestHandler handles the requests of connections. It is apart from connection.h so that routes
// need no socket headers.
#pragma once

#include <memory>
#include <optional>

#include "server/http/http_types.h"

namespace quire::server {

// Its methods are called on the strands of many connections at once.
class RequestHandler {
 public:
  virtual ~RequestHandler() = default;
  // Called before the body is read. When it returns an answer (401, 404, 405 …), the body is not
  // read.
  virtual std::optional<HttpResponse> on_head(const HttpRequest& head) = 0;
  virtual void on_request(HttpRequest request, std::shared_ptr<ReplyChannel> reply) = 0;
  // Returns whether requests wait for a place in the engine that a stalled stream occupies.
  virtual bool work_waits() const = 0;
  // Called when the answer has been written, or when the client has left (status 499).
  virtual void on_done(const HttpRequest& head, int status, double seconds) = 0;
};

}  // namespace quire::server
