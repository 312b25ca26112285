// BackgroundCalls runs calls that go on whether or not a client listens. One thread of its own
// passes chunks from the engine to their writers.
#pragma once

#include <memory>

#include "server/generation/generation_call.h"

namespace quire::server {

class BackgroundCalls {
 public:
  BackgroundCalls();
  // Stops the calls that are running.
  ~BackgroundCalls();
  BackgroundCalls(const BackgroundCalls&) = delete;
  BackgroundCalls& operator=(const BackgroundCalls&) = delete;

  // Runs a call whose `detached` is set. If the engine refuses it, `reply` gets the error;
  // otherwise `detached` answers. The engine must outlive the call.
  void run(std::shared_ptr<ReplyChannel> reply, PreparedCall prepared, AsyncEngine& engine,
           GenerationCall::Options options);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire::server
