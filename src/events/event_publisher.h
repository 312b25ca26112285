// EventPublisher publishes numbered messages over ZeroMQ, as vLLM publishes its KV events.
//
//   PUB      [topic, number, payload] of each message; numbers are 8 bytes, big-endian
//   ROUTER   replay: [empty, first number] is answered with [empty, number, payload] for each message
//            that is still kept, and [empty, -1, empty] after the last
//
// publish() never waits: when the sending thread is too slow, messages are dropped, which leaves a
// gap in the numbers.
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
  // Sends what is queued, and waits up to half a second for peers to take it.
  virtual ~EventPublisher() = default;
  // Queues a message. Any thread may call it.
  virtual void publish(std::string payload) = 0;
  // Returns the endpoint that the socket is bound to; a port of 0 or * is replaced by the actual
  // one.
  virtual std::string endpoint() const = 0;
  virtual std::string replay_endpoint() const = 0;
};

}  // namespace quire
