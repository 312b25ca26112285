// EventPublisher: numbered messages over ZeroMQ, as vLLM publishes its KV events.
//
//   PUB      [topic, number, payload] of each message; numbers are 8 bytes, big-endian
//   ROUTER   replay: who sends [empty, first number] gets [empty, number, payload] of each message that
//            is still kept, and [empty, -1, empty] behind the last
//
// publish() never waits: messages that the sending thread is too slow for are dropped, and leave a gap
// in the numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"

namespace quire {

struct EventPublisherOptions {
  std::string endpoint = "tcp://*:5557";
  std::string replay_endpoint;  // empty: none
  std::string topic;
  int64_t buffer_steps = 10'000;      // messages that are kept for replay
  int32_t high_water_mark = 100'000;  // messages that wait for one slow subscriber
  int64_t max_queue_size = 100'000;   // messages that wait for the sending thread
};

class EventPublisher {
 public:
  // Binds the endpoints. kInvalidArgument: one of them cannot be bound.
  static Result<std::unique_ptr<EventPublisher>> open(const EventPublisherOptions& options);
  virtual ~EventPublisher() = default;
  // Any thread may call it.
  virtual void publish(std::string payload) = 0;
  // Returns where the socket is bound; a port of 0 or * is replaced by the one that it became.
  virtual std::string endpoint() const = 0;
  virtual std::string replay_endpoint() const = 0;
};

}  // namespace quire
