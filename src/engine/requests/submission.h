// What a frontend hands to the engine, and how full the queue is that it hands it to.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/choices/group.h"
#include "engine/output/generation.h"
#include "engine/output/output_channel.h"

namespace quire {

struct Submission {
  GroupId id;
  GenerationRequest request;  // passed Engine::prepare()
  std::shared_ptr<OutputChannel> channel;
};

// How full the queue is, for refusing at the door.
struct QueueState {
  int32_t num_requests = 0;  // never yet admitted
  int64_t num_tokens = 0;
  int64_t retry_after_s = 1;
};

}  // namespace quire
