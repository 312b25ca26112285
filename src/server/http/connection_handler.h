// Where a connection's requests go. Apart from connection.h so that routes need no socket headers.
#pragma once

#include <memory>
#include <optional>

#include "server/http/http_types.h"

namespace quire::server {

// Called on the strands of many connections at once.
class RequestHandler {
 public:
  virtual ~RequestHandler() = default;
  // Before the body is read: an answer here (401, 404, 405 …) spares reading it.
  virtual std::optional<HttpResponse> on_head(const HttpRequest& head) = 0;
  virtual void on_request(HttpRequest request, std::shared_ptr<ReplyChannel> reply) = 0;
  // Whether requests wait for their turn that a stalled stream takes the place of.
  virtual bool work_waits() const = 0;
  // The answer has been written (or the client left: status 499).
  virtual void on_done(const HttpRequest& head, int status, double seconds) = 0;
};

}  // namespace quire::server
