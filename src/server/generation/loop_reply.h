// LoopReply: the client's place in a call that comes from no connection. Used on the one thread of
// an io_context, which is its strand.
#pragma once

#include <boost/asio/io_context.hpp>
#include <exception>
#include <functional>
#include <memory>

#include "server/http/http_types.h"

namespace quire::server {

class LoopReply : public ReplyChannel, public std::enable_shared_from_this<LoopReply> {
 public:
  explicit LoopReply(std::shared_ptr<boost::asio::io_context> io) : io_(std::move(io)) {}

  bool wants_more() const final { return true; }
  // Call and reply hold each other until release_call().
  void attach(std::shared_ptr<OngoingCall> call) final { call_ = std::move(call); }
  std::function<void(std::function<void()>)> poster() final;

 protected:
  // A part of the call's work has thrown.
  virtual void on_failure(const std::exception& e) = 0;
  // Lets go of the call when it has come back: it may be what asks for this.
  void release_call();
  // Tells the call that nobody waits for its answer any more.
  void disconnect();

 private:
  const std::shared_ptr<boost::asio::io_context> io_;
  std::shared_ptr<OngoingCall> call_;
};

}  // namespace quire::server
