// LoopReply stands for the client in a call that has no connection. It is used on the only thread
// of an io_context, which serves as its strand.
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
  // The call and the reply own each other until release_call().
  void attach(std::shared_ptr<OngoingCall> call) final { call_ = std::move(call); }
  std::function<void(std::function<void()>)> poster() final;

 protected:
  // Called when a part of the call's work has thrown, or when its answer cannot be finished.
  virtual void on_failure(const std::string& why) = 0;
  // Releases the call after it has returned, because the call itself may ask for this.
  void release_call();
  // Tells the call that nobody waits for its answer any longer.
  void disconnect();

 private:
  const std::shared_ptr<boost::asio::io_context> io_;
  std::shared_ptr<OngoingCall> call_;
};

}  // namespace quire::server
