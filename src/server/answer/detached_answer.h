// A detached answer is completed even when its client has left.
#pragma once

#include <functional>
#include <memory>

#include "server/http/http_types.h"

namespace quire::server {

class DetachedAnswer {
 public:
  virtual ~DetachedAnswer() = default;
  // Sets the function that stops the generation. Any thread may call it.
  virtual void set_cancel(std::function<void()> cancel) = 0;
  // Called on the strand of `reply` when the generation has started: answers the client.
  virtual void accept(std::shared_ptr<ReplyChannel> reply, HeaderList headers) = 0;
  // Called when the generation was refused, after the client has been told why.
  virtual void drop() = 0;
};

}  // namespace quire::server
