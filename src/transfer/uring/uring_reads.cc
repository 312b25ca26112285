#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "transfer/file_reads.h"

namespace quire {
namespace {

// The number of reads in flight: enough to keep a disk busy while a finished piece is processed.
constexpr unsigned kDepth = 32;

class UringReads final : public FileReads {
 public:
  // Returns null if the kernel does not allow it.
  static std::unique_ptr<FileReads> create() {
    auto reads = std::unique_ptr<UringReads>(new UringReads());
    reads->is_open_ = io_uring_queue_init(kDepth, &reads->ring_, 0) == 0;
    if (!reads->is_open_ || !reads->can_read()) return nullptr;
    return reads;
  }
  ~UringReads() override {
    if (is_open_) io_uring_queue_exit(&ring_);
  }

  Status read(int fd, std::span<const FilePiece> pieces, const Take& take) override {
    Batch batch{.fd = fd, .pieces = pieces, .num_read = std::vector<int64_t>(pieces.size())};
    size_t next = 0;
    // Even after an error, all reads in flight must end before this returns, since their memory is
    // the caller's.
    while (true) {
      while (batch.status.ok() && next < pieces.size() && batch.num_under_way < kDepth)
        begin(batch, next++);
      if (batch.num_under_way == 0) return batch.status;
      const int submitted = io_uring_submit_and_wait(&ring_, 1);
      QUIRE_CHECK(
          submitted >= 0 || submitted == -EINTR || submitted == -EAGAIN || submitted == -EBUSY,
          "io_uring takes no reads");
      io_uring_cqe* done = nullptr;
      while (io_uring_peek_cqe(&ring_, &done) == 0) {
        const auto piece = static_cast<size_t>(io_uring_cqe_get_data64(done));
        const int result = done->res;
        io_uring_cqe_seen(&ring_, done);
        --batch.num_under_way;
        if (batch.status.ok()) batch.status = on_read(batch, piece, result, take);
      }
    }
  }
  std::string_view name() const override { return "io_uring"; }

 private:
  struct Batch {
    const int fd;
    const std::span<const FilePiece> pieces;
    std::vector<int64_t> num_read;  // bytes of each piece
    unsigned num_under_way = 0;
    Status status;
  };

  UringReads() = default;

  bool can_read() {
    io_uring_probe* const probe = io_uring_get_probe_ring(&ring_);
    if (probe == nullptr) return false;
    const bool can = io_uring_opcode_supported(probe, IORING_OP_READ) != 0;
    io_uring_free_probe(probe);
    return can;
  }

  // Starts to read the rest of the piece.
  void begin(Batch& batch, size_t i) {
    constexpr int64_t kMost = int64_t{1} << 30;  // the length of a read is 32 bits
    const FilePiece& piece = batch.pieces[i];
    const int64_t done = batch.num_read[i];
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    QUIRE_CHECK(entry != nullptr, "more reads than the ring has places");
    io_uring_prep_read(entry, batch.fd, piece.data + done,
                       static_cast<unsigned>(std::min(kMost, piece.num_bytes - done)),
                       static_cast<uint64_t>(piece.offset + done));
    io_uring_sqe_set_data64(entry, i);
    ++batch.num_under_way;
  }

  Status on_read(Batch& batch, size_t i, int result, const Take& take) {
    if (result < 0 && result != -EINTR && result != -EAGAIN)
      return internal_error("read: {}", std::strerror(-result));
    if (result == 0) return {StatusCode::kDataLoss, "it ends early"};
    batch.num_read[i] += std::max(0, result);
    if (batch.num_read[i] == batch.pieces[i].num_bytes) return take(i);
    begin(batch, i);
    return {};
  }

  io_uring ring_{};
  bool is_open_ = false;
};

}  // namespace

std::unique_ptr<FileReads> make_uring_reads() { return UringReads::create(); }

}  // namespace quire
