#include "server/generation/loop_reply.h"

#include <boost/asio/post.hpp>
#include <exception>
#include <utility>

namespace quire::server {

namespace asio = boost::asio;

std::function<void(std::function<void()>)> LoopReply::poster() {
  return [io = io_, self = weak_from_this()](std::function<void()> work) {
    asio::post(*io, [self, work = std::move(work)] {
      try {
        work();
      } catch (const std::exception& e) {
        if (const auto reply = self.lock()) reply->on_failure(e.what());
      }
    });
  };
}

void LoopReply::release_call() {
  asio::post(*io_, [call = std::exchange(call_, nullptr)] {});
}

void LoopReply::disconnect() {
  if (const auto call = std::exchange(call_, nullptr)) call->on_disconnect();
}

}  // namespace quire::server
