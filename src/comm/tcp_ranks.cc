#include "comm/tcp_ranks.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/clock.h"

namespace quire {
namespace {

// Every gather() is numbered, so that ranks which are not at the same place are found out.
constexpr size_t kNumberBytes = sizeof(uint64_t);

}  // namespace

TcpRanks::TcpRanks(RankLinks& links, int first, int size)
    : RankGroup(links.rank() - first, size),
      links_(links),
      first_(first),
      transfers_(static_cast<size_t>(size)) {}

Status TcpRanks::allocate(int64_t memory_bytes) {
  constexpr size_t kAlignment = 64;
  const auto size_bytes = static_cast<size_t>(memory_bytes);
  storage_.reset(new (std::nothrow) std::byte[size_bytes + kAlignment]);
  if (storage_ == nullptr) return resource_exhausted("ranks: no {} bytes of memory", memory_bytes);
  void* at = storage_.get();
  size_t space = size_bytes + kAlignment;
  memory_ = {static_cast<std::byte*>(std::align(kAlignment, size_bytes, at, space)), size_bytes};
  return {};
}

bool TcpRanks::gather(const GatheredMatrix& matrix) {
  if (!links_.status().ok()) return false;
  ++num_gathers_;
  const auto mine = matrix.columns[static_cast<size_t>(rank())];
  std::byte* const first = memory_.data() + matrix.offset_bytes;
  out_.resize(kNumberBytes + static_cast<size_t>(mine.size() * matrix.num_rows));
  std::memcpy(out_.data(), &num_gathers_, kNumberBytes);
  for (int64_t row = 0; row < matrix.num_rows; ++row) {
    std::memcpy(out_.data() + kNumberBytes + row * mine.size(),
                first + row * matrix.row_stride_bytes + mine.begin,
                static_cast<size_t>(mine.size()));
  }
  for (int other = 0; other < size(); ++other) {
    Transfer& transfer = transfers_[static_cast<size_t>(other)];
    const bool receives = other != rank() && (!matrix.first_only || rank() == 0);
    const int64_t bytes = matrix.columns[static_cast<size_t>(other)].size() * matrix.num_rows;
    transfer.in.resize(receives ? kNumberBytes + static_cast<size_t>(bytes) : 0);
    transfer.num_sent = transfer.num_received = 0;
    transfer.sends = other != rank() && (!matrix.first_only || other == 0);
  }
  if (!exchange()) return false;
  for (int other = 0; other < size(); ++other) {
    const Transfer& transfer = transfers_[static_cast<size_t>(other)];
    if (transfer.in.empty()) continue;
    uint64_t number = 0;
    std::memcpy(&number, transfer.in.data(), kNumberBytes);
    if (number != num_gathers_)
      return break_at(other, fmt::format("it is at exchange {}, not {}", number, num_gathers_));
    const ByteColumns columns = matrix.columns[static_cast<size_t>(other)];
    for (int64_t row = 0; row < matrix.num_rows; ++row) {
      std::memcpy(first + row * matrix.row_stride_bytes + columns.begin,
                  transfer.in.data() + kNumberBytes + row * columns.size(),
                  static_cast<size_t>(columns.size()));
    }
  }
  return true;
}

// Everything goes out and comes in at once, so that no order of ranks can make them wait in a ring.
bool TcpRanks::exchange() {
  int64_t deadline_us = deadline_in_ms(links_.deadline_ms());
  for (;;) {
    pollfd waited[kMaxRanks];
    int others[kMaxRanks];
    nfds_t count = 0;
    for (int other = 0; other < size(); ++other) {
      const Transfer& transfer = transfers_[static_cast<size_t>(other)];
      short events = 0;
      if (transfer.sends && transfer.num_sent < out_.size()) events |= POLLOUT;
      if (transfer.num_received < transfer.in.size()) events |= POLLIN;
      if (events == 0) continue;
      waited[count] = {.fd = data(other).fd(), .events = events, .revents = 0};
      others[count++] = other;
    }
    if (count == 0) return true;
    const int64_t left_us = deadline_us - SteadyClock().now_us();
    const int ready = left_us > 0 ? ::poll(waited, count, static_cast<int>(left_us / 1000 + 1)) : 0;
    if (ready == 0)
      return break_at(others[0], fmt::format("no answer within {} ms", links_.deadline_ms()));
    if (ready < 0 && errno != EINTR) return break_at(others[0], std::strerror(errno));  // NOLINT
    for (nfds_t i = 0; i < count && ready > 0; ++i) {
      if (waited[i].revents == 0) continue;
      const Status moved = move_bytes(others[i], waited[i].revents);
      if (!moved.ok()) return break_at(others[i], moved.message());
    }
    deadline_us = deadline_in_ms(links_.deadline_ms());  // something moved
  }
}

Status TcpRanks::move_bytes(int other, short ready) {
  Transfer& transfer = transfers_[static_cast<size_t>(other)];
  const auto failed = [](ssize_t moved) { return moved < 0 && errno != EAGAIN && errno != EINTR; };
  if ((ready & POLLOUT) != 0) {
    const ssize_t sent = ::send(data(other).fd(), out_.data() + transfer.num_sent,
                                out_.size() - transfer.num_sent, MSG_NOSIGNAL);
    if (failed(sent)) return unavailable("{}", std::strerror(errno));  // NOLINT
    if (sent > 0) transfer.num_sent += static_cast<size_t>(sent);
  }
  if ((ready & (POLLIN | POLLHUP | POLLERR)) != 0 && transfer.num_received < transfer.in.size()) {
    const ssize_t received = ::recv(data(other).fd(), transfer.in.data() + transfer.num_received,
                                    transfer.in.size() - transfer.num_received, 0);
    if (received == 0) return unavailable("it has closed the connection");
    if (failed(received)) return unavailable("{}", std::strerror(errno));  // NOLINT
    if (received > 0) transfer.num_received += static_cast<size_t>(received);
  } else if ((ready & (POLLHUP | POLLERR)) != 0) {
    return unavailable("the connection is lost");
  }
  return {};
}

bool TcpRanks::break_at(int other, const std::string& reason) {
  links_.break_at(first_ + other, reason);
  return false;
}

}  // namespace quire
