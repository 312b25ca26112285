#include "events/event_publisher.h"

#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "events/msgpack.h"

namespace quire {
namespace {

// How long the end waits for peers to take what was sent to them.
constexpr int kLingerMs = 500;

std::string eight_bytes(uint64_t x) {
  std::string bytes;
  msgpack::put_big_endian(bytes, x, 8);
  return bytes;
}

struct Message {
  uint64_t number = 0;
  std::string payload;
};

struct CloseSocket {
  void operator()(void* socket) const { zmq_close(socket); }
};
using Socket = std::unique_ptr<void, CloseSocket>;

Result<Socket> bind(void* context, int type, const std::string& endpoint, int high_water_mark) {
  Socket socket(zmq_socket(context, type));
  if (socket == nullptr) return internal_error("ZeroMQ: {}", zmq_strerror(zmq_errno()));
  zmq_setsockopt(socket.get(), ZMQ_SNDHWM, &high_water_mark, sizeof high_water_mark);
  zmq_setsockopt(socket.get(), ZMQ_LINGER, &kLingerMs, sizeof kLingerMs);
  if (zmq_bind(socket.get(), endpoint.c_str()) != 0) {
    return invalid_argument("{}: expected an endpoint of ZeroMQ that can be bound: {}", endpoint,
                            zmq_strerror(zmq_errno()));
  }
  return socket;
}

std::string bound_to(void* socket) {
  if (socket == nullptr) return {};
  char text[256] = {};
  size_t size = sizeof text;
  zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, text, &size);
  return text;
}

// Returns false if the peer is gone or its queue is full.
bool send(void* socket, const std::vector<std::string_view>& parts) {
  for (size_t i = 0; i < parts.size(); ++i) {
    const int flags = ZMQ_DONTWAIT | (i + 1 < parts.size() ? ZMQ_SNDMORE : 0);
    if (zmq_send(socket, parts[i].data(), parts[i].size(), flags) < 0) return false;
  }
  return true;
}

// Returns all parts of the next message, or nothing if there is no message.
std::vector<std::string> receive(void* socket) {
  std::vector<std::string> parts;
  while (true) {
    zmq_msg_t part;
    zmq_msg_init(&part);
    const bool is_there = zmq_msg_recv(&part, socket, ZMQ_DONTWAIT) >= 0;
    if (is_there)
      parts.emplace_back(static_cast<const char*>(zmq_msg_data(&part)), zmq_msg_size(&part));
    const bool has_more = is_there && zmq_msg_more(&part) != 0;
    zmq_msg_close(&part);
    if (!has_more) return parts;
  }
}

class ZmqPublisher final : public EventPublisher {
 public:
  ZmqPublisher(void* context, Socket publisher, Socket replay, int wake,
               const EventPublisherOptions& options)
      : options_(options),
        context_(context),
        publisher_(std::move(publisher)),
        replay_(std::move(replay)),
        endpoint_(bound_to(publisher_.get())),
        replay_endpoint_(bound_to(replay_.get())),
        wake_(wake),
        thread_([this] { run(); }) {}
  ~ZmqPublisher() override {
    is_ending_ = true;
    wake_up();
    thread_.join();
    publisher_.reset();
    replay_.reset();
    zmq_ctx_term(context_);
    ::close(wake_);
  }

  void publish(std::string payload) override {
    {
      const std::lock_guard lock(mutex_);
      const uint64_t number = num_published_++;
      if (std::ssize(queue_) >= options_.max_queue_size) return;
      queue_.push_back({number, std::move(payload)});
    }
    wake_up();
  }
  std::string endpoint() const override { return endpoint_; }
  std::string replay_endpoint() const override { return replay_endpoint_; }

 private:
  void wake_up() const { (void)!::write(wake_, &kOne, sizeof kOne); }

  void run() {
    zmq_pollitem_t items[] = {
        {.socket = nullptr, .fd = wake_, .events = ZMQ_POLLIN, .revents = 0},
        {.socket = replay_.get(), .fd = 0, .events = ZMQ_POLLIN, .revents = 0}};
    while (!is_ending_) {
      zmq_poll(items, replay_ == nullptr ? 1 : 2, -1);
      uint64_t count = 0;
      if (items[0].revents != 0) (void)!::read(wake_, &count, sizeof count);
      send_queued();
      if (replay_ != nullptr) answer_replays();
    }
    send_queued();  // what was published just before the end
  }

  void send_queued() {
    std::deque<Message> queued;
    {
      const std::lock_guard lock(mutex_);
      queued.swap(queue_);
    }
    for (Message& message : queued) {
      send(publisher_.get(), {options_.topic, eight_bytes(message.number), message.payload});
      kept_.push_back(std::move(message));
      if (std::ssize(kept_) > options_.buffer_steps) kept_.pop_front();
    }
  }

  void answer_replays() {
    while (true) {
      const std::vector<std::string> request = receive(replay_.get());
      if (request.empty()) return;
      if (request.size() != 3 || request[2].size() != 8) continue;
      uint64_t first = 0;
      for (const char byte : request[2]) first = first << 8 | static_cast<uint8_t>(byte);
      const std::string& who = request[0];
      const auto begin = std::lower_bound(
          kept_.begin(), kept_.end(), first,
          [](const Message& message, uint64_t number) { return message.number < number; });
      for (auto it = begin; it != kept_.end(); ++it) {
        if (!send(replay_.get(), {who, {}, eight_bytes(it->number), it->payload})) break;
      }
      constexpr uint64_t kEnd = ~uint64_t{0};
      send(replay_.get(), {who, {}, eight_bytes(kEnd), {}});
    }
  }

  static constexpr uint64_t kOne = 1;
  const EventPublisherOptions options_;
  void* const context_;
  Socket publisher_, replay_;  // used by the thread until it ends; null without replay
  const std::string endpoint_, replay_endpoint_;
  const int wake_;            // an eventfd
  std::deque<Message> kept_;  // used by the thread alone
  std::mutex mutex_;
  std::deque<Message> queue_;   // guarded by mutex_
  uint64_t num_published_ = 0;  // guarded by mutex_
  std::atomic<bool> is_ending_{false};
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<EventPublisher>> EventPublisher::open(const EventPublisherOptions& options) {
  void* const context = zmq_ctx_new();
  const auto sockets = [&]() -> Result<std::pair<Socket, Socket>> {
    std::pair<Socket, Socket> made;
    QUIRE_ASSIGN_OR_RETURN(made.first,
                           bind(context, ZMQ_PUB, options.endpoint, options.high_water_mark));
    if (options.replay_endpoint.empty()) return made;
    QUIRE_ASSIGN_OR_RETURN(
        made.second, bind(context, ZMQ_ROUTER, options.replay_endpoint, options.high_water_mark));
    return made;
  };
  Result<std::pair<Socket, Socket>> made = sockets();
  const int wake = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (!made.ok() || wake < 0) {
    const Status status = made.ok() ? internal_error("no eventfd") : made.status();
    made = status;  // closes the sockets, which the context would wait for
    zmq_ctx_term(context);
    if (wake >= 0) ::close(wake);
    return status;
  }
  return std::unique_ptr<EventPublisher>(std::make_unique<ZmqPublisher>(
      context, std::move(made->first), std::move(made->second), wake, options));
}

}  // namespace quire
