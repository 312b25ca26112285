// A detached answer goes on when its client has left.
#pragma once

#include <functional>
#include <memory>

#include "server/http/http_types.h"

namespace quire::server {

class DetachedAnswer {
 public:
  virtual ~DetachedAnswer() = default;
  // What stops the generation; any thread may call it.
  virtual void set_cancel(std::function<void()> cancel) = 0;
  // The generation is under way: answers the client that asked for it. On the strand of `reply`.
  virtual void accept(std::shared_ptr<ReplyChannel> reply, HeaderList headers) = 0;
  // It was refused, and the client has been told why.
  virtual void drop() = 0;
};

}  // namespace quire::server
