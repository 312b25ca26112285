#include "comm/shared_pipe.h"

#include <algorithm>
#include <cstring>

namespace quire {
namespace {

// The ring size is a power of two, so that positions may wrap around.
static_assert((SharedPipe::kRingBytes & (SharedPipe::kRingBytes - 1)) == 0);
// Longer writes are split into pieces of this size, so that readers read one while the next is
// written.
constexpr size_t kPieceBytes = SharedPipe::kRingBytes / 4;

// Calls `copy` with each part of the ring that holds some of the `num_bytes` from `position` on,
// and with the offset of that part in these bytes.
template <typename Copy>
void for_parts(SharedPipe& pipe, uint32_t position, size_t num_bytes, const Copy& copy) {
  const uint32_t begin = position % SharedPipe::kRingBytes;
  const size_t first = std::min<size_t>(num_bytes, SharedPipe::kRingBytes - begin);
  copy(pipe.ring() + begin, size_t{0}, first);
  if (first < num_bytes) copy(pipe.ring(), first, num_bytes - first);
}

}  // namespace

bool PipeWriter::write(std::initializer_list<std::span<const std::byte>> parts,
                       const GoesOn& goes_on) {
  for (std::span<const std::byte> left : parts) {
    while (!left.empty()) {
      const auto piece = left.first(std::min(left.size(), kPieceBytes));
      const auto num_bytes = static_cast<uint32_t>(piece.size());
      if (!wait_for_room(num_bytes, goes_on)) return false;
      for_parts(pipe_, end_, num_bytes, [&](std::byte* ring, size_t at, size_t count) {
        std::memcpy(ring, piece.data() + at, count);
      });
      end_ += num_bytes;
      left = left.subspan(piece.size());
    }
  }
  pipe_.end.raise(end_);
  return true;
}

bool PipeWriter::wait_for_room(uint32_t num_bytes, const GoesOn& goes_on) {
  const uint32_t wanted = end_ + num_bytes - SharedPipe::kRingBytes;
  const auto is_enough = [&] { return static_cast<int32_t>(all_read_ - wanted) >= 0; };
  if (is_enough()) return true;
  pipe_.end.raise(end_);
  all_read_ = end_;
  for (const int reader : readers_) {
    SharedWord& read = pipe_.read[static_cast<size_t>(reader)];
    if (!read.sleep(wanted, goes_on)) return false;
    const uint32_t value = read.value();
    if (static_cast<int32_t>(value - all_read_) < 0) all_read_ = value;
  }
  return true;
}

bool PipeReader::read(std::span<std::byte> bytes, const GoesOn& goes_on) {
  while (!bytes.empty()) {
    if (!pipe_.end.spin(read_ + 1, num_spins_) && !pipe_.end.sleep(read_ + 1, goes_on))
      return false;
    const size_t count = std::min<size_t>(bytes.size(), pipe_.end.value() - read_);
    for_parts(pipe_, read_, count, [&](const std::byte* ring, size_t at, size_t num_bytes) {
      std::memcpy(bytes.data() + at, ring, num_bytes);
    });
    read_ += static_cast<uint32_t>(count);
    own_.raise(read_);
    bytes = bytes.subspan(count);
  }
  return true;
}

}  // namespace quire
