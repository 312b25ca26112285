// A stream's bell is how the engine's thread tells a call that one of its streams has new output.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

namespace quire::server {

// Returns the function that the engine calls. It uses `post` (ReplyChannel::poster()) to run `pump`
// of the call on the call's strand, once, however often the engine rings before that. Only the
// strand locks the weak pointer to the call, so the engine's thread never destroys a call and its
// streams.
template <typename Call>
std::function<void()> stream_bell(std::function<void(std::function<void()>)> post,
                                  std::weak_ptr<Call> call, void (Call::*pump)()) {
  struct Bell {
    std::atomic<bool> rung{false};
    std::function<void(std::function<void()>)> post;
    std::weak_ptr<Call> call;
  };
  auto bell = std::make_shared<Bell>();
  bell->post = std::move(post);
  bell->call = std::move(call);
  return [bell, pump] {
    if (bell->rung.exchange(true)) return;
    bell->post([bell, pump] {
      bell->rung.store(false);
      if (const std::shared_ptr<Call> there = bell->call.lock()) (there.get()->*pump)();
    });
  };
}

}  // namespace quire::server
