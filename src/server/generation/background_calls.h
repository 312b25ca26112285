// Calls that run on whether or not a client listens. They have a thread of their own, which hands
// chunks from the engine to their writers.
#pragma once

#include <memory>

#include "server/generation/generation_call.h"

namespace quire::server {

class BackgroundCalls {
 public:
  BackgroundCalls();
  // Calls that are under way are stopped.
  ~BackgroundCalls();
  BackgroundCalls(const BackgroundCalls&) = delete;
  BackgroundCalls& operator=(const BackgroundCalls&) = delete;

  // Runs a call that has a `detached`. A refusal of the engine goes to `reply`; otherwise
  // `detached` answers it. The engine outlives the call.
  void run(std::shared_ptr<ReplyChannel> reply, PreparedCall prepared, AsyncEngine& engine,
           GenerationCall::Options options);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire::server
