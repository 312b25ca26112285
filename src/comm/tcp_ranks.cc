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

// Kinds of frames while ranks join.
enum : uint32_t { kHelloData = 1, kHelloControl = 2, kAdmitted = 3, kRefused = 4, kTable = 5 };

constexpr size_t kMaxAgreementBytes = 4096;
// A stranger on the port is not waited for longer.
constexpr int64_t kHelloMs = 2000;

// What a rank says when it connects; the agreement follows.
struct Hello {
  int32_t rank = 0;
  int32_t size = 0;
  uint32_t port = 0;  // where it listens
};

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Every gather() is numbered, so that ranks which are not at the same place are found out.
constexpr size_t kNumberBytes = sizeof(uint64_t);

}  // namespace

TcpRanks::TcpRanks(TcpRanksOptions options)
    : RankGroup(options.rank, options.size),
      options_(std::move(options)),
      links_(static_cast<size_t>(options_.size)) {}

Result<std::unique_ptr<TcpRanks>> TcpRanks::join(const TcpRanksOptions& options) {
  if (options.size < 1 || options.size > kMaxRanks || options.rank < 0 ||
      options.rank >= options.size) {
    return invalid_argument(
        "ranks: expected a rank in [0, size) and a size in [1, {}], got {} of {}", kMaxRanks,
        options.rank, options.size);
  }
  if (options.agreement.size() > kMaxAgreementBytes)
    return invalid_argument("ranks: what they agree on takes {} bytes, expected at most {}",
                            options.agreement.size(), kMaxAgreementBytes);
  std::unique_ptr<TcpRanks> ranks(new TcpRanks(options));
  const bool leads = options.rank == 0;
  QUIRE_ASSIGN_OR_RETURN(const Socket listener, listen_on(leads ? options.port : uint16_t{0}));
  Status status = leads ? ranks->lead(listener) : ranks->follow(listener);
  if (!status.ok()) {
    return status.with_context(fmt::format("rank {} of {} joining {}:{}", options.rank,
                                           options.size, options.address, options.port));
  }
  return ranks;
}

Status TcpRanks::introduce(const Socket& socket, uint32_t kind, uint16_t port,
                           int64_t deadline_us) const {
  std::vector<std::byte> bytes(sizeof(Hello));
  const Hello hello{rank(), size(), port};
  std::memcpy(bytes.data(), &hello, sizeof(hello));
  const auto agreement = bytes_of(options_.agreement);
  bytes.insert(bytes.end(), agreement.begin(), agreement.end());
  QUIRE_RETURN_IF_ERROR(send_frame(socket, kind, bytes, deadline_us));
  Frame answer;
  QUIRE_RETURN_IF_ERROR(receive_frame(socket, answer, deadline_us));
  if (answer.kind == kRefused) return invalid_argument("refused: {}", text_of(answer.payload));
  if (answer.kind != kAdmitted) return data_loss("an answer of kind {}", answer.kind);
  return {};
}

Result<bool> TcpRanks::admit(Socket socket) {
  Frame frame;
  const Status received = receive_frame(socket, frame, deadline_in_ms(kHelloMs));
  Hello hello;
  if (!received.ok() || (frame.kind != kHelloData && frame.kind != kHelloControl) ||
      frame.payload.size() < sizeof(hello))
    return false;
  std::memcpy(&hello, frame.payload.data(), sizeof(hello));
  const std::string_view agreement = text_of(std::span(frame.payload).subspan(sizeof(hello)));
  Status refusal;
  if (hello.size != size() || hello.rank <= 0 || hello.rank >= size() || hello.rank == rank()) {
    refusal = invalid_argument("expected ranks of a group of {}, got rank {} of {}", size(),
                               hello.rank, hello.size);
  } else if (agreement != options_.agreement) {
    refusal = invalid_argument("rank {} was started otherwise: expected '{}', got '{}'", hello.rank,
                               options_.agreement, agreement);
  }
  if (!refusal.ok()) {
    (void)send_frame(socket, kRefused, bytes_of(refusal.message()), deadline_in_ms(kHelloMs));
    return refusal;
  }
  Link& link = links_[static_cast<size_t>(hello.rank)];
  Socket& place = frame.kind == kHelloData ? link.data : link.control;
  if (place.is_open()) {
    const Status twice = invalid_argument("rank {} came twice", hello.rank);
    (void)send_frame(socket, kRefused, bytes_of(twice.message()), deadline_in_ms(kHelloMs));
    return false;
  }
  link.address = peer_address(socket);
  link.port = static_cast<uint16_t>(hello.port);
  QUIRE_RETURN_IF_ERROR(send_frame(socket, kAdmitted, {}, deadline_in_ms(kHelloMs)));
  place = std::move(socket);
  return true;
}

Status TcpRanks::lead(const Socket& listener) {
  const int64_t deadline_us = deadline_in_ms(options_.join_deadline_ms);
  for (int missing = 2 * (size() - 1); missing > 0;) {
    Result<Socket> socket = accept_one(listener, deadline_us);
    if (!socket.ok()) {
      return deadline_exceeded("after {} ms {} of {} connections of the other ranks are missing",
                               options_.join_deadline_ms, missing, 2 * (size() - 1));
    }
    QUIRE_ASSIGN_OR_RETURN(const bool admitted, admit(std::move(*socket)));
    if (admitted) --missing;
  }
  std::string table;  // of all ranks: address and port, a line each
  for (int other = 1; other < size(); ++other) {
    const Link& link = links_[static_cast<size_t>(other)];
    table += fmt::format("{} {}\n", link.address, link.port);
  }
  for (int other = 1; other < size(); ++other)
    QUIRE_RETURN_IF_ERROR(send_frame(control(other), kTable, bytes_of(table), deadline_us));
  return {};
}

Status TcpRanks::follow(const Socket& listener) {
  const int64_t deadline_us = deadline_in_ms(options_.join_deadline_ms);
  const uint16_t port = port_of(listener);
  Link& first = links_.front();
  for (const uint32_t kind : {kHelloControl, kHelloData}) {
    Socket& place = kind == kHelloData ? first.data : first.control;
    QUIRE_ASSIGN_OR_RETURN(place, connect_to(options_.address, options_.port, deadline_us));
    QUIRE_RETURN_IF_ERROR(introduce(place, kind, port, deadline_us));
  }
  Frame frame;
  QUIRE_RETURN_IF_ERROR(receive_frame(first.control, frame, deadline_us));
  if (frame.kind != kTable) return data_loss("the first rank sent kind {}", frame.kind);
  std::string_view table = text_of(frame.payload);
  for (int other = 1; other < size(); ++other) {
    const size_t blank = table.find(' '), end = table.find('\n');
    if (blank == std::string_view::npos || end == std::string_view::npos || blank > end)
      return data_loss("the first rank's table of ranks has no line {}", other);
    Link& link = links_[static_cast<size_t>(other)];
    link.address = std::string(table.substr(0, blank));
    link.port = static_cast<uint16_t>(std::atoi(table.substr(blank + 1, end - blank).data()));
    table.remove_prefix(end + 1);
  }
  for (int other = 1; other < rank(); ++other) {
    Link& link = links_[static_cast<size_t>(other)];
    QUIRE_ASSIGN_OR_RETURN(link.data, connect_to(link.address, link.port, deadline_us));
    QUIRE_RETURN_IF_ERROR(introduce(link.data, kHelloData, port, deadline_us));
  }
  for (int missing = size() - 1 - rank(); missing > 0;) {
    QUIRE_ASSIGN_OR_RETURN(Socket socket, accept_one(listener, deadline_us));
    QUIRE_ASSIGN_OR_RETURN(const bool admitted, admit(std::move(socket)));
    if (admitted) --missing;
  }
  return {};
}

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

const Socket& TcpRanks::control(int other) const {
  return links_[rank() == 0 ? static_cast<size_t>(other) : 0].control;
}

bool TcpRanks::gather(const GatheredMatrix& matrix) {
  if (!status_.ok()) return false;
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
    Link& link = links_[static_cast<size_t>(other)];
    const bool receives = other != rank() && (!matrix.first_only || rank() == 0);
    const int64_t bytes = matrix.columns[static_cast<size_t>(other)].size() * matrix.num_rows;
    link.in.resize(receives ? kNumberBytes + static_cast<size_t>(bytes) : 0);
    link.num_sent = link.num_received = 0;
    link.sends = other != rank() && (!matrix.first_only || other == 0);
  }
  if (!exchange()) return false;
  for (int other = 0; other < size(); ++other) {
    const Link& link = links_[static_cast<size_t>(other)];
    if (link.in.empty()) continue;
    uint64_t number = 0;
    std::memcpy(&number, link.in.data(), kNumberBytes);
    if (number != num_gathers_)
      return break_at(other, fmt::format("it is at exchange {}, not {}", number, num_gathers_));
    const ByteColumns columns = matrix.columns[static_cast<size_t>(other)];
    for (int64_t row = 0; row < matrix.num_rows; ++row) {
      std::memcpy(first + row * matrix.row_stride_bytes + columns.begin,
                  link.in.data() + kNumberBytes + row * columns.size(),
                  static_cast<size_t>(columns.size()));
    }
  }
  return true;
}

// Everything goes out and comes in at once, so that no order of ranks can make them wait in a ring.
bool TcpRanks::exchange() {
  int64_t deadline_us = deadline_in_ms(options_.deadline_ms);
  for (;;) {
    pollfd waited[kMaxRanks];
    int others[kMaxRanks];
    nfds_t count = 0;
    for (int other = 0; other < size(); ++other) {
      const Link& link = links_[static_cast<size_t>(other)];
      short events = 0;
      if (link.sends && link.num_sent < out_.size()) events |= POLLOUT;
      if (link.num_received < link.in.size()) events |= POLLIN;
      if (events == 0) continue;
      waited[count] = {.fd = link.data.fd(), .events = events, .revents = 0};
      others[count++] = other;
    }
    if (count == 0) return true;
    const int64_t left_us = deadline_us - SteadyClock().now_us();
    const int ready = left_us > 0 ? ::poll(waited, count, static_cast<int>(left_us / 1000 + 1)) : 0;
    if (ready == 0)
      return break_at(others[0], fmt::format("no answer within {} ms", options_.deadline_ms));
    if (ready < 0 && errno != EINTR) return break_at(others[0], std::strerror(errno));  // NOLINT
    for (nfds_t i = 0; i < count && ready > 0; ++i) {
      if (waited[i].revents == 0) continue;
      const Status moved = move_bytes(links_[static_cast<size_t>(others[i])], waited[i].revents);
      if (!moved.ok()) return break_at(others[i], moved.message());
    }
    deadline_us = deadline_in_ms(options_.deadline_ms);  // something moved
  }
}

Status TcpRanks::move_bytes(Link& link, short ready) {
  const auto failed = [](ssize_t moved) { return moved < 0 && errno != EAGAIN && errno != EINTR; };
  if ((ready & POLLOUT) != 0) {
    const ssize_t sent = ::send(link.data.fd(), out_.data() + link.num_sent,
                                out_.size() - link.num_sent, MSG_NOSIGNAL);
    if (failed(sent)) return unavailable("{}", std::strerror(errno));  // NOLINT
    if (sent > 0) link.num_sent += static_cast<size_t>(sent);
  }
  if ((ready & (POLLIN | POLLHUP | POLLERR)) != 0 && link.num_received < link.in.size()) {
    const ssize_t received = ::recv(link.data.fd(), link.in.data() + link.num_received,
                                    link.in.size() - link.num_received, 0);
    if (received == 0) return unavailable("it has closed the connection");
    if (failed(received)) return unavailable("{}", std::strerror(errno));  // NOLINT
    if (received > 0) link.num_received += static_cast<size_t>(received);
  } else if ((ready & (POLLHUP | POLLERR)) != 0) {
    return unavailable("the connection is lost");
  }
  return {};
}

bool TcpRanks::break_at(int other, const std::string& reason) {
  status_ = unavailable("rank {} of {} at {}: {}", other, size(),
                        other == 0 ? options_.address : links_[static_cast<size_t>(other)].address,
                        reason);
  leave();
  return false;
}

void TcpRanks::leave() {
  for (Link& link : links_) {
    link.data.shut_down();
    link.control.shut_down();
  }
}

}  // namespace quire
