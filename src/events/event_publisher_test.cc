#include "events/event_publisher.h"

#include <gtest/gtest.h>
#include <zmq.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace quire {
namespace {

using Parts = std::vector<std::string>;

class Peer {
 public:
  Peer(int type, const std::string& endpoint)
      : context_(zmq_ctx_new()), socket_(zmq_socket(context_, type)) {
    const int linger = 0, timeout_ms = 5000;
    zmq_setsockopt(socket_, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt(socket_, ZMQ_RCVTIMEO, &timeout_ms, sizeof timeout_ms);
    if (type == ZMQ_SUB) zmq_setsockopt(socket_, ZMQ_SUBSCRIBE, "kv", 2);
    EXPECT_EQ(zmq_connect(socket_, endpoint.c_str()), 0);
  }
  ~Peer() {
    zmq_close(socket_);
    zmq_ctx_term(context_);
  }
  void send(const Parts& parts) {
    for (size_t i = 0; i < parts.size(); ++i)
      zmq_send(socket_, parts[i].data(), parts[i].size(), i + 1 < parts.size() ? ZMQ_SNDMORE : 0);
  }
  Parts receive(int flags = 0) {
    Parts parts;
    char bytes[1024];
    int more = 1;
    while (more != 0) {
      const int n = zmq_recv(socket_, bytes, sizeof bytes, flags);
      if (n < 0) return parts;
      parts.emplace_back(bytes, static_cast<size_t>(n));
      size_t size = sizeof more;
      zmq_getsockopt(socket_, ZMQ_RCVMORE, &more, &size);
    }
    return parts;
  }

 private:
  void* const context_;
  void* const socket_;
};

std::string number(uint64_t x) {
  std::string bytes;
  for (int i = 7; i >= 0; --i) bytes += static_cast<char>(x >> (8 * i));
  return bytes;
}

std::unique_ptr<EventPublisher> open(int64_t buffer_steps = 3) {
  auto publisher = EventPublisher::open({.endpoint = "tcp://127.0.0.1:*",
                                         .replay_endpoint = "tcp://127.0.0.1:*",
                                         .topic = "kv@me",
                                         .buffer_steps = buffer_steps});
  EXPECT_TRUE(publisher.ok()) << publisher.status().message();
  return std::move(publisher).value();
}

TEST(EventPublisher, SubscribersGetNumberedMessages) {
  const auto publisher = open();
  Peer subscriber(ZMQ_SUB, publisher->endpoint());
  uint64_t published = 0;
  Parts first;
  while (first.empty() && published < 500) {  // until the subscription arrives
    publisher->publish(std::to_string(published++));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    first = subscriber.receive(ZMQ_DONTWAIT);
  }
  ASSERT_EQ(first.size(), 3u);
  uint64_t next = std::stoull(first[2]);
  EXPECT_EQ(first, (Parts{"kv@me", number(next), std::to_string(next)}));
  for (++next; next < published; ++next)
    EXPECT_EQ(subscriber.receive(), (Parts{"kv@me", number(next), std::to_string(next)}));
}

TEST(EventPublisher, TheLastMessagesAreSentAtTheEnd) {
  auto publisher = open();
  Peer subscriber(ZMQ_SUB, publisher->endpoint());
  for (int i = 0; i < 500 && subscriber.receive(ZMQ_DONTWAIT).empty(); ++i) {
    publisher->publish("is the subscription there?");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  constexpr int kNumMessages = 500;
  for (int i = 0; i < kNumMessages; ++i) publisher->publish(std::to_string(i));
  publisher.reset();
  Parts payloads;
  while (payloads.empty() || payloads.back() != std::to_string(kNumMessages - 1)) {
    const Parts parts = subscriber.receive();
    ASSERT_EQ(parts.size(), 3u) << payloads.size() << " came";
    payloads.push_back(parts[2]);
  }
  EXPECT_GE(std::ssize(payloads), kNumMessages);
}

TEST(EventPublisher, ReplayGivesWhatIsKept) {
  const auto publisher = open();
  for (int i = 0; i < 5; ++i) publisher->publish(std::to_string(i));
  Peer client(ZMQ_DEALER, publisher->replay_endpoint());
  const Parts end = {"", number(~uint64_t{0}), ""};
  const auto replayed = [&](uint64_t first) {
    Parts payloads;
    client.send({"", number(first)});
    for (Parts parts = client.receive(); parts != end; parts = client.receive()) {
      EXPECT_EQ(parts.size(), 3u);
      if (parts.size() != 3) break;
      payloads.push_back(parts[2]);
    }
    return payloads;
  };
  while (replayed(0).size() < 3) {  // until all are sent
  }
  EXPECT_EQ(replayed(0), (Parts{"2", "3", "4"}));  // only three are kept
  EXPECT_EQ(replayed(3), (Parts{"3", "4"}));
  EXPECT_EQ(replayed(5), Parts());
  client.send({"what?"});  // it is not answered, and does no harm
  client.send({"", "short"});
  EXPECT_EQ(replayed(4), Parts{"4"});
}

TEST(EventPublisher, EndpointsThatCannotBeBoundAreSaid) {
  const auto taken = open();
  for (const std::string& endpoint :
       {taken->endpoint(), std::string("what"), std::string("tcp://nowhere.invalid:1")}) {
    const Status status = EventPublisher::open({.endpoint = endpoint}).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << endpoint;
    EXPECT_EQ(EventPublisher::open({.endpoint = "tcp://127.0.0.1:*", .replay_endpoint = endpoint})
                  .status()
                  .code(),
              StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace quire
