#include "transfer/file_reads.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace quire {
namespace {

class PreadReads final : public FileReads {
 public:
  Status read(int fd, std::span<const FilePiece> pieces, const Take& take) override {
    for (size_t i = 0; i < pieces.size(); ++i) {
      QUIRE_RETURN_IF_ERROR(read_piece(fd, pieces[i]));
      QUIRE_RETURN_IF_ERROR(take(i));
    }
    return {};
  }
  std::string_view name() const override { return "pread"; }
};

}  // namespace

Status read_piece(int fd, const FilePiece& piece) {
  int64_t done = 0;
  while (done < piece.num_bytes) {
    const ssize_t got = ::pread(fd, piece.data + done, static_cast<size_t>(piece.num_bytes - done),
                                piece.offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return internal_error("read: {}", std::strerror(errno));
    if (got == 0) return {StatusCode::kDataLoss, "it ends early"};
    done += got;
  }
  return {};
}

std::unique_ptr<FileReads> make_pread_reads() { return std::make_unique<PreadReads>(); }

std::unique_ptr<FileReads> make_file_reads() {
  std::unique_ptr<FileReads> reads = make_uring_reads();
  return reads != nullptr ? std::move(reads) : make_pread_reads();
}

}  // namespace quire
