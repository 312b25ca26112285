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

constexpr size_t kNumberBytes = sizeof(uint64_t);
// How often a rank checks for data before it sleeps: about 20 microseconds.
constexpr int kIdleTurns = 50;

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

void TcpRanks::pack(const std::byte* first, int64_t stride_bytes, const Block& block,
                    std::vector<std::byte>& message) const {
  const auto row_bytes = static_cast<size_t>(block.columns.size());
  message.resize(kNumberBytes + block.size_bytes());
  std::memcpy(message.data(), &num_exchanges_, kNumberBytes);
  std::byte* to = message.data() + kNumberBytes;
  for (int64_t row = block.rows.begin; row < block.rows.end; ++row, to += row_bytes)
    std::memcpy(to, first + row * stride_bytes + block.columns.begin, row_bytes);
}

void TcpRanks::expect(const Block& block, Transfer& transfer) const {
  transfer.block = block;
  transfer.in.resize(kNumberBytes + block.size_bytes());
}

bool TcpRanks::gather(const GatheredMatrix& matrix) {
  if (!links_.status().ok()) return false;
  ++num_exchanges_;
  std::byte* const first = memory_.data() + matrix.offset_bytes;
  const MatrixRows rows{0, matrix.num_rows};
  pack(first, matrix.row_stride_bytes, {rows, matrix.columns[static_cast<size_t>(rank())]}, out_);
  for (int other = 0; other < size(); ++other) {
    Transfer& transfer = transfers_[static_cast<size_t>(other)];
    const bool sends = other != rank() && (!matrix.first_only || other == 0);
    const bool receives = other != rank() && (!matrix.first_only || rank() == 0);
    transfer.out = sends ? std::span<const std::byte>(out_) : std::span<const std::byte>();
    transfer.in.clear();
    if (receives) expect({rows, matrix.columns[static_cast<size_t>(other)]}, transfer);
  }
  return exchange(first, matrix.row_stride_bytes);
}

bool TcpRanks::all_to_all(const ExchangedMatrix& matrix) {
  if (!links_.status().ok()) return false;
  ++num_exchanges_;
  std::byte* const first = memory_.data() + matrix.offset_bytes;
  const auto mine = static_cast<size_t>(rank());
  for (int other = 0; other < size(); ++other) {
    const auto at = static_cast<size_t>(other);
    Transfer& transfer = transfers_[at];
    transfer.in.clear();
    transfer.out = {};
    if (other == rank()) continue;
    pack(first, matrix.row_stride_bytes, {matrix.rows[mine], matrix.columns[at]}, transfer.own);
    transfer.out = transfer.own;
    expect({matrix.rows[at], matrix.columns[mine]}, transfer);
  }
  return exchange(first, matrix.row_stride_bytes);
}

bool TcpRanks::exchange(std::byte* first, int64_t stride_bytes) {
  for (Transfer& transfer : transfers_) transfer.num_sent = transfer.num_received = 0;
  if (!move_all()) return false;
  for (int other = 0; other < size(); ++other) {
    if (!unpack(other, first, stride_bytes)) return false;
  }
  return true;
}

bool TcpRanks::unpack(int other, std::byte* first, int64_t stride_bytes) {
  const Transfer& transfer = transfers_[static_cast<size_t>(other)];
  if (transfer.in.empty()) return true;
  uint64_t number = 0;
  std::memcpy(&number, transfer.in.data(), kNumberBytes);
  if (number != num_exchanges_)
    return break_at(other, fmt::format("it is at exchange {}, not {}", number, num_exchanges_));
  const auto& [rows, columns] = transfer.block;
  const std::byte* from = transfer.in.data() + kNumberBytes;
  for (int64_t row = rows.begin; row < rows.end; ++row, from += columns.size()) {
    std::memcpy(first + row * stride_bytes + columns.begin, from,
                static_cast<size_t>(columns.size()));
  }
  return true;
}

// Sends and receives at the same time, so that ranks cannot wait for each other in a cycle.
// Messages are small and the other ranks are mostly at the same step, so this thread first polls
// for some microseconds, which takes less time than being woken.
bool TcpRanks::move_all() {
  int64_t deadline_us = deadline_in_ms(links_.deadline_ms());
  for (int num_idle_turns = 0;;) {
    bool has_moved = false;
    pollfd waited[kMaxRanks];
    int others[kMaxRanks];
    nfds_t count = 0;
    for (int other = 0; other < size(); ++other) {
      const Transfer& transfer = transfers_[static_cast<size_t>(other)];
      if (transfer.is_done()) continue;
      const Result<bool> moved = move_bytes(other);
      if (!moved.ok()) return break_at(other, moved.status().message());
      has_moved |= *moved;
      if (transfer.is_done()) continue;
      const bool sends = transfer.num_sent < transfer.out.size();
      const bool receives = transfer.num_received < transfer.in.size();
      waited[count] = {
          .fd = data(other).fd(),
          .events = static_cast<short>((sends ? POLLOUT : 0) | (receives ? POLLIN : 0)),
          .revents = 0};
      others[count++] = other;
    }
    if (count == 0) return true;
    if (has_moved) {
      num_idle_turns = 0;
      deadline_us = deadline_in_ms(links_.deadline_ms());
      continue;
    }
    if (++num_idle_turns < kIdleTurns) continue;
    const int64_t left_us = deadline_us - SteadyClock().now_us();
    const int ready = left_us > 0 ? ::poll(waited, count, static_cast<int>(left_us / 1000 + 1)) : 0;
    if (ready == 0)
      return break_at(others[0], fmt::format("no answer within {} ms", links_.deadline_ms()));
    if (ready < 0 && errno != EINTR) return break_at(others[0], std::strerror(errno));  // NOLINT
  }
}

Result<bool> TcpRanks::move_bytes(int other) {
  Transfer& transfer = transfers_[static_cast<size_t>(other)];
  const auto failed = [](ssize_t moved) { return moved < 0 && errno != EAGAIN && errno != EINTR; };
  bool has_moved = false;
  if (transfer.num_sent < transfer.out.size()) {
    const ssize_t sent = ::send(data(other).fd(), transfer.out.data() + transfer.num_sent,
                                transfer.out.size() - transfer.num_sent, MSG_NOSIGNAL);
    if (failed(sent)) return unavailable("{}", std::strerror(errno));  // NOLINT
    if (sent > 0) transfer.num_sent += static_cast<size_t>(sent);
    has_moved |= sent > 0;
  }
  if (transfer.num_received < transfer.in.size()) {
    const ssize_t received = ::recv(data(other).fd(), transfer.in.data() + transfer.num_received,
                                    transfer.in.size() - transfer.num_received, 0);
    if (received == 0) return unavailable("it has closed the connection");
    if (failed(received)) return unavailable("{}", std::strerror(errno));  // NOLINT
    if (received > 0) transfer.num_received += static_cast<size_t>(received);
    has_moved |= received > 0;
  }
  return has_moved;
}

bool TcpRanks::break_at(int other, const std::string& reason) {
  links_.break_at(first_ + other, reason);
  return false;
}

}  // namespace quire
