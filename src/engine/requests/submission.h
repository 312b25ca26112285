// The form in which a frontend gives a request to the engine, and the state of the engine's queue.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/choices/group.h"
#include "engine/output/generation.h"
#include "engine/output/output_channel.h"

namespace quire {

struct Submission {
  GroupId id;
  GenerationRequest request;  // has passed Engine::prepare()
  std::shared_ptr<OutputChannel> channel;
};

// How full the queue is, by which submissions are refused at once.
struct QueueState {
  int32_t num_requests = 0;  // never yet admitted
  int64_t num_tokens = 0;
  int64_t retry_after_s = 1;
};

}  // namespace quire
