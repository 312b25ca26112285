#include "comm/process_ranks.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <span>
#include <string>
#include <utility>

#include "comm/socket.h"
#include "comm/tcp_ranks.h"

namespace quire {
namespace {

// Kinds of frames while memory is shared.
enum : uint32_t { kOffer = 40, kReply = 41, kOutcome = 42 };

// In the last bytes of the file, so that a rank knows that it has the same one: numbers of processes
// and of their files mean something else on another machine.
using Mark = uint64_t;

struct Offer {
  Mark mark = 0;
  int32_t process = 0;  // 0: nothing is offered
  int32_t file_descriptor = -1;
};

int64_t file_bytes(int64_t memory_bytes) {
  return SharedRanks::mapped_bytes(memory_bytes) + int64_t{sizeof(Mark)};
}

// Closes what it holds.
class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

bool has_mark(const File& file, int64_t memory_bytes, Mark mark) {
  struct stat info {};
  const int64_t at = SharedRanks::mapped_bytes(memory_bytes);
  Mark found = 0;
  return file.fd() >= 0 && ::fstat(file.fd(), &info) == 0 &&
         info.st_size == file_bytes(memory_bytes) &&
         ::pread(file.fd(), &found, sizeof(found), at) == ssize_t{sizeof(found)} && found == mark;
}

Result<Frame> receive(const SharedSeat& seat, int other, uint32_t kind) {
  Frame frame;
  // The others may still plan their memory; whether they live, the links know.
  const Status status = receive_frame(seat.links->data(other), frame, 0);
  if (!status.ok()) {
    seat.links->break_at(other, status.message());
    return seat.links->status();
  }
  if (frame.kind != kind)
    return data_loss("rank {} sent a frame of kind {}, expected {}", other, frame.kind, kind);
  return frame;
}

Status send(const SharedSeat& seat, int other, uint32_t kind, std::span<const std::byte> payload) {
  return send_frame(seat.links->data(other), kind, payload,
                    deadline_in_ms(seat.links->deadline_ms()));
}

// Yes is a byte, no is none.
Status send_answer(const SharedSeat& seat, int other, uint32_t kind, bool is_yes) {
  const std::byte yes{1};
  return send(seat, other, kind, std::span(&yes, is_yes ? 1 : 0));
}

bool is_yes(const Frame& frame) { return frame.payload.size() == 1; }

Result<std::unique_ptr<RankGroup>> offer(const SharedSeat& seat, int64_t memory_bytes,
                                         RankTransport transport) {
  std::unique_ptr<RankGroup> group;
  const File file(transport == RankTransport::kFastest ? ::memfd_create("quire-ranks", MFD_CLOEXEC)
                                                       : -1);
  std::random_device random;
  const Mark mark = (Mark{random()} << 32) | random();
  Offer offered;
  if (file.fd() >= 0 && ::ftruncate(file.fd(), file_bytes(memory_bytes)) == 0 &&
      ::pwrite(file.fd(), &mark, sizeof(mark), SharedRanks::mapped_bytes(memory_bytes)) ==
          ssize_t{sizeof(mark)}) {
    auto mapped = SharedRanks::map(file.fd(), memory_bytes, true, seat);
    if (mapped.ok()) {
      group = std::move(*mapped);
      offered = {.mark = mark, .process = ::getpid(), .file_descriptor = file.fd()};
    }
  }
  const int first = seat.first, end = seat.first + seat.size;
  for (int other = first + 1; other < end; ++other)
    QUIRE_RETURN_IF_ERROR(send(seat, other, kOffer, std::as_bytes(std::span(&offered, 1))));
  bool all_share = group != nullptr;
  for (int other = first + 1; other < end; ++other) {
    QUIRE_ASSIGN_OR_RETURN(const Frame reply, receive(seat, other, kReply));
    all_share &= is_yes(reply);
  }
  for (int other = first + 1; other < end; ++other)
    QUIRE_RETURN_IF_ERROR(send_answer(seat, other, kOutcome, all_share));
  if (!all_share) group.reset();
  return group;
}

Result<std::unique_ptr<RankGroup>> accept(const SharedSeat& seat, int64_t memory_bytes) {
  QUIRE_ASSIGN_OR_RETURN(const Frame frame, receive(seat, seat.first, kOffer));
  Offer offered;
  if (frame.payload.size() != sizeof(offered))
    return data_loss("rank {} offers memory in {} bytes, expected {}", seat.first,
                     frame.payload.size(), sizeof(offered));
  std::memcpy(&offered, frame.payload.data(), sizeof(offered));
  std::unique_ptr<RankGroup> group;
  if (offered.process > 0) {
    const std::string path =
        fmt::format("/proc/{}/fd/{}", offered.process, offered.file_descriptor);
    const File file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (has_mark(file, memory_bytes, offered.mark)) {
      auto mapped = SharedRanks::map(file.fd(), memory_bytes, false, seat);
      if (mapped.ok()) group = std::move(*mapped);
    }
  }
  QUIRE_RETURN_IF_ERROR(send_answer(seat, seat.first, kReply, group != nullptr));
  QUIRE_ASSIGN_OR_RETURN(const Frame outcome, receive(seat, seat.first, kOutcome));
  if (!is_yes(outcome)) group.reset();
  return group;
}

}  // namespace

Result<std::unique_ptr<RankGroup>> join_processes(const SharedSeat& seat, int64_t memory_bytes,
                                                  RankTransport transport) {
  const bool is_first = seat.links->rank() == seat.first;
  QUIRE_ASSIGN_OR_RETURN(
      std::unique_ptr<RankGroup> group,
      is_first ? offer(seat, memory_bytes, transport) : accept(seat, memory_bytes));
  if (group != nullptr) return group;
  auto ranks = std::make_unique<TcpRanks>(*seat.links, seat.first, seat.size);
  QUIRE_RETURN_IF_ERROR(ranks->allocate(memory_bytes));
  return std::unique_ptr<RankGroup>(std::move(ranks));
}

}  // namespace quire
