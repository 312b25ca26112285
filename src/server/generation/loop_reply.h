// LoopReply: the client's place in a call that comes from no connection. Used on the one thread of
// an io_context, which is its strand.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>

#include "server/http/http_types.h"

namespace quire::server {

class LoopReply : public ReplyChannel, public std::enable_shared_from_this<LoopReply> {
 public:
  explicit LoopReply(std::shared_ptr<boost::asio::io_context> io) : io_(std::move(io)) {}

  bool wants_more() const final { return true; }
  void cut(const std::string& why) final { on_failure(why); }
  // Call and reply hold each other until release_call().
  void attach(std::shared_ptr<OngoingCall> call) final { call_ = std::move(call); }
  std::function<void(std::function<void()>)> poster() final;

 protected:
  // A part of the call's work has thrown, or its answer cannot be finished.
  virtual void on_failure(const std::string& why) = 0;
  // Lets go of the call when it has come back: it may be what asks for this.
  void release_call();
  // Tells the call that nobody waits for its answer any more.
  void disconnect();

 private:
  const std::shared_ptr<boost::asio::io_context> io_;
  std::shared_ptr<OngoingCall> call_;
};

}  // namespace quire::server
