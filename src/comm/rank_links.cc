#include "comm/rank_links.h"

#include <chrono>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "comm/rank_group.h"

namespace quire {
namespace {

// Kinds of frames with which ranks join.
enum : uint32_t {
  kHelloData = 1,
  kHelloControl = 2,
  kAdmitted = 3,
  kRefused = 4,
  kTable = 5,
  kHelloWatch = 6,
  kHelloBlocks = 7
};

constexpr size_t kMaxAgreementBytes = 4096;
// A connection that does not introduce itself within this time is dropped.
constexpr int64_t kHelloMs = 2000;
// How long the watch has to report which rank was lost.
constexpr std::chrono::milliseconds kVerdict{500};
// How many connections each other rank has to the first one.
constexpr int kNumKinds = 4;

// A rank's first message on a connection; the agreement follows it.
struct Hello {
  int32_t rank = 0;
  int32_t size = 0;
  uint32_t port = 0;  // the port where the rank listens
};

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

Socket* RankLinks::Link::place(uint32_t kind) {
  switch (kind) {
    case kHelloData:
      return &data;
    case kHelloControl:
      return &control;
    case kHelloWatch:
      return &watch;
    case kHelloBlocks:
      return &blocks;
    default:
      return nullptr;
  }
}

RankLinks::RankLinks(RankLinksOptions options)
    : options_(std::move(options)), links_(static_cast<size_t>(options_.size)) {}

Result<std::unique_ptr<RankLinks>> RankLinks::join(const RankLinksOptions& options) {
  if (options.size < 1 || options.size > RankGroup::kMaxRanks || options.rank < 0 ||
      options.rank >= options.size) {
    return invalid_argument(
        "ranks: expected a rank in [0, size) and a size in [1, {}], got {} of {}",
        RankGroup::kMaxRanks, options.rank, options.size);
  }
  if (options.agreement.size() > kMaxAgreementBytes)
    return invalid_argument("ranks: what they agree on takes {} bytes, expected at most {}",
                            options.agreement.size(), kMaxAgreementBytes);
  std::unique_ptr<RankLinks> links(new RankLinks(options));
  const bool leads = options.rank == 0;
  QUIRE_ASSIGN_OR_RETURN(const Socket listener, listen_on(leads ? options.port : uint16_t{0}));
  Status status = leads ? links->lead(listener) : links->follow(listener);
  if (!status.ok()) {
    return status.with_context(fmt::format("rank {} of {} joining {}:{}", options.rank,
                                           options.size, options.address, options.port));
  }
  QUIRE_RETURN_IF_ERROR(links->start_watch());
  return links;
}

// The first rank watches all others; each of the others watches only the first.
Status RankLinks::start_watch() {
  std::vector<RankWatch::Peer> peers;
  for (int other = 0; other < size(); ++other) {
    Socket& watch = links_[static_cast<size_t>(other)].watch;
    if (watch.is_open()) peers.push_back({.rank = other, .socket = std::move(watch)});
  }
  QUIRE_ASSIGN_OR_RETURN(watch_, RankWatch::start(std::move(peers), options_.deadline_ms,
                                                  [this](int other, const std::string& reason) {
                                                    on_lost(other, reason);
                                                  }));
  return {};
}

Status RankLinks::introduce(const Socket& socket, uint32_t kind, uint16_t port,
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
  if (answer.kind == kAdmitted) return {};
  return data_loss("an answer to a rank that joins: expected a frame of kind {} or {}, got {}",
                   static_cast<uint32_t>(kAdmitted), static_cast<uint32_t>(kRefused), answer.kind);
}

Status RankLinks::refuse(const Socket& socket, Status reason) {
  (void)send_frame(socket, kRefused, bytes_of(reason.message()), deadline_in_ms(kHelloMs));
  log_warn("a rank at {} is refused: {}", peer_address(socket), reason.message());
  last_refusal_ = reason;
  return reason;
}

Result<bool> RankLinks::admit(Socket socket) {
  Frame frame;
  Hello hello;
  const Status received = receive_frame(socket, frame, deadline_in_ms(kHelloMs),
                                        int64_t{sizeof(hello) + kMaxAgreementBytes});
  if (!received.ok() || Link().place(frame.kind) == nullptr || frame.payload.size() < sizeof(hello))
    return false;
  std::memcpy(&hello, frame.payload.data(), sizeof(hello));
  const std::string_view agreement = text_of(std::span(frame.payload).subspan(sizeof(hello)));
  if (hello.size != size() || hello.rank <= 0 || hello.rank >= size() || hello.rank == rank()) {
    (void)refuse(socket, invalid_argument("expected ranks of a group of {}, got rank {} of {}",
                                          size(), hello.rank, hello.size));
    return false;
  }
  Link& link = links_[static_cast<size_t>(hello.rank)];
  Socket& place = *link.place(frame.kind);
  if (place.is_open()) {
    (void)refuse(socket, invalid_argument("rank {} came twice", hello.rank));
    return false;
  }
  if (agreement != options_.agreement) {
    return refuse(socket, invalid_argument("rank {} was started otherwise: expected '{}', got '{}'",
                                           hello.rank, options_.agreement, agreement));
  }
  if (!send_frame(socket, kAdmitted, {}, deadline_in_ms(kHelloMs)).ok()) return false;
  link.address = peer_address(socket);
  link.port = static_cast<uint16_t>(hello.port);
  place = std::move(socket);
  return true;
}

Status RankLinks::lead(const Socket& listener) {
  const int64_t deadline_us = deadline_in_ms(options_.join_deadline_ms);
  for (int missing = kNumKinds * (size() - 1); missing > 0;) {
    Result<Socket> socket = accept_one(listener, deadline_us);
    if (socket.status().code() == StatusCode::kDeadlineExceeded) {
      return deadline_exceeded(
          "after {} ms {} of {} connections of the other ranks are missing{}{}",
          options_.join_deadline_ms, missing, kNumKinds * (size() - 1),
          last_refusal_.ok() ? "" : "; the last one that was refused: ", last_refusal_.message());
    }
    QUIRE_RETURN_IF_ERROR(socket.status());
    QUIRE_ASSIGN_OR_RETURN(const bool admitted, admit(std::move(*socket)));
    if (admitted) --missing;
  }
  std::string table;  // a line for each other rank: address and port
  for (int other = 1; other < size(); ++other) {
    const Link& link = links_[static_cast<size_t>(other)];
    table += fmt::format("{} {}\n", link.address, link.port);
  }
  for (int other = 1; other < size(); ++other)
    QUIRE_RETURN_IF_ERROR(send_frame(control(other), kTable, bytes_of(table), deadline_us));
  return {};
}

Status RankLinks::follow(const Socket& listener) {
  const int64_t deadline_us = deadline_in_ms(options_.join_deadline_ms);
  const uint16_t port = port_of(listener);
  Link& first = links_.front();
  for (const uint32_t kind : {kHelloControl, kHelloData, kHelloWatch, kHelloBlocks}) {
    Socket& place = *first.place(kind);
    QUIRE_ASSIGN_OR_RETURN(place, connect_to(options_.address, options_.port, deadline_us));
    QUIRE_RETURN_IF_ERROR(introduce(place, kind, port, deadline_us));
  }
  Frame frame;
  QUIRE_RETURN_IF_ERROR(receive_frame(first.control, frame, deadline_us));
  if (frame.kind != kTable) {
    return data_loss("the first rank's table of ranks: expected a frame of kind {}, got {}",
                     static_cast<uint32_t>(kTable), frame.kind);
  }
  std::string_view table = text_of(frame.payload);
  for (int other = 1; other < size(); ++other) {
    const size_t blank = table.find(' '), end = table.find('\n');
    if (blank == std::string_view::npos || end == std::string_view::npos || blank > end)
      return data_loss(
          "the first rank's table of ranks: expected an address and a port in line {}, got '{}'",
          other, table.substr(0, end));
    Link& link = links_[static_cast<size_t>(other)];
    link.address = std::string(table.substr(0, blank));
    link.port = static_cast<uint16_t>(std::atoi(table.substr(blank + 1, end - blank).data()));
    table.remove_prefix(end + 1);
  }
  return meet_others(listener, deadline_us);
}

// Connects to the ranks with lower numbers; the ranks with higher numbers connect to this one.
Status RankLinks::meet_others(const Socket& listener, int64_t deadline_us) {
  for (int other = 1; other < rank(); ++other) {
    Link& link = links_[static_cast<size_t>(other)];
    QUIRE_ASSIGN_OR_RETURN(link.data, connect_to(link.address, link.port, deadline_us));
    QUIRE_RETURN_IF_ERROR(introduce(link.data, kHelloData, port_of(listener), deadline_us));
  }
  for (int missing = size() - 1 - rank(); missing > 0;) {
    QUIRE_ASSIGN_OR_RETURN(Socket socket, accept_one(listener, deadline_us));
    QUIRE_ASSIGN_OR_RETURN(const bool admitted, admit(std::move(socket)));
    if (admitted) --missing;
  }
  return {};
}

const Socket& RankLinks::control(int other) const {
  return links_[rank() == 0 ? static_cast<size_t>(other) : 0].control;
}

void RankLinks::end() { watch_->end(); }

void RankLinks::break_at(int other, const std::string& reason) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kVerdict, [this] { return !status_.ok(); });
  }
  on_lost(other, reason);
}

void RankLinks::on_lost(int other, const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (status_.ok()) {
      const std::string& address =
          other == 0 ? options_.address : links_[static_cast<size_t>(other)].address;
      status_ = unavailable("rank {} of {} at {}: {}", other, size(), address, reason);
    }
  }
  changed_.notify_all();
  leave();
}

void RankLinks::leave() {
  for (Link& link : links_) {
    link.data.shut_down();
    link.control.shut_down();
    link.blocks.shut_down();
  }
}

Status RankLinks::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

}  // namespace quire
