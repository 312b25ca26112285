#include "comm/rank_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/clock.h"

namespace quire {
namespace {

constexpr char kAlive = 'a';
constexpr char kGoodbye = 'g';
constexpr int64_t kIntervalUs = 500'000;

}  // namespace

Result<std::unique_ptr<RankWatch>> RankWatch::start(std::vector<Peer> peers, int64_t silence_ms,
                                                    OnLost on_lost) {
  Socket bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell.is_open()) return unavailable("ranks: no event to end a thread with");
  return std::unique_ptr<RankWatch>(
      new RankWatch(std::move(peers), silence_ms, std::move(on_lost), std::move(bell)));
}

RankWatch::RankWatch(std::vector<Peer> peers, int64_t silence_ms, OnLost on_lost, Socket bell)
    : peers_(std::move(peers)),
      heard_us_(peers_.size(), SteadyClock().now_us()),
      silence_us_(silence_ms * 1000),
      on_lost_(std::move(on_lost)),
      bell_(std::move(bell)),
      thread_([this] { run(); }) {}

void RankWatch::end() {
  stop();
  if (!std::exchange(is_ended_, true)) say(kGoodbye);
}

void RankWatch::stop() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  (void)!::write(bell_.fd(), &one, sizeof(one));
  thread_.join();
}

void RankWatch::run() {
  const SteadyClock clock;
  for (;;) {
    say(kAlive);
    const int64_t until_us = clock.now_us() + std::min(kIntervalUs, silence_us_ / 4);
    for (int64_t left_us; (left_us = until_us - clock.now_us()) > 0;) {
      std::vector<pollfd> waited{{.fd = bell_.fd(), .events = POLLIN, .revents = 0}};
      for (const Peer& peer : peers_)  // poll() ignores those that are closed (fd -1)
        waited.push_back({.fd = peer.socket.fd(), .events = POLLIN, .revents = 0});
      ::poll(waited.data(), waited.size(), static_cast<int>(left_us / 1000 + 1));
      if (waited.front().revents != 0) return;
      for (size_t i = 0; i < peers_.size(); ++i) {
        if (waited[i + 1].revents != 0) hear(i);
      }
    }
    // If this process itself was stopped, the bytes that came meanwhile have been read by now.
    for (size_t i = 0; i < peers_.size(); ++i) {
      const bool is_silent = clock.now_us() - heard_us_[i] > silence_us_;
      if (peers_[i].socket.is_open() && is_silent)
        lose(i, fmt::format("no sign of life for {} ms", silence_us_ / 1000));
    }
  }
}

void RankWatch::hear(size_t index) {
  char signs[64];
  const ssize_t received = ::recv(peers_[index].socket.fd(), signs, sizeof(signs), 0);
  if (received > 0) {
    heard_us_[index] = SteadyClock().now_us();
    const bool ends = std::find(signs, signs + received, kGoodbye) != signs + received;
    if (ends) peers_[index].socket.close();
  } else if (received == 0) {
    lose(index, "it has closed the connection");
  } else if (errno != EAGAIN && errno != EINTR) {
    lose(index, "the connection is lost");
  }
}

void RankWatch::lose(size_t index, const std::string& reason) {
  peers_[index].socket.close();
  on_lost_(peers_[index].rank, reason);
}

// Errors are ignored: a peer that cannot be reached is found lost when it closes or stays silent.
void RankWatch::say(char sign) {
  for (const Peer& peer : peers_) {
    if (peer.socket.is_open()) (void)!::send(peer.socket.fd(), &sign, 1, MSG_NOSIGNAL);
  }
}

}  // namespace quire
