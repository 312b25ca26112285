// A SharedPipe carries bytes from one writer to several readers, which are threads or processes, through
// a ring in memory that all of them map: each byte is written once, and every reader reads all of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <vector>

#include "comm/rank_group.h"
#include "comm/shared_word.h"

namespace quire {

// The memory begins with it, as zeros at first, and the ring follows. Positions count bytes.
struct SharedPipe {
  static constexpr uint32_t kRingBytes = 256 << 10;

  SharedWord end;                                     // of what is written
  std::array<SharedWord, RankGroup::kMaxRanks> read;  // by reader: what it has read

  static constexpr int64_t mapped_bytes();
  std::byte* ring() { return reinterpret_cast<std::byte*>(this + 1); }
};
static_assert(sizeof(SharedPipe) % 64 == 0);
constexpr int64_t SharedPipe::mapped_bytes() { return int64_t{sizeof(SharedPipe)} + kRingBytes; }

// Says whether a waiting thread goes on; it is asked now and then.
using GoesOn = std::function<bool()>;

// One thread may use it. It borrows the pipe.
class PipeWriter {
 public:
  PipeWriter(SharedPipe& pipe, std::vector<int> readers)
      : pipe_(pipe), readers_(std::move(readers)) {}

  // Writes all parts, one behind the other, however long they are. It wakes readers once where there
  // is room for all. False: somebody has not read, and `goes_on` said no.
  bool write(std::initializer_list<std::span<const std::byte>> parts, const GoesOn& goes_on);

 private:
  bool wait_for_room(uint32_t num_bytes, const GoesOn& goes_on);

  SharedPipe& pipe_;
  std::vector<int> readers_;
  uint32_t end_ = 0;
  uint32_t all_read_ = 0;  // what all readers had read when they were last looked at
};

// One thread may use it. It borrows the pipe.
class PipeReader {
 public:
  // Looks `num_spins` times before it sleeps.
  PipeReader(SharedPipe& pipe, int reader, int num_spins)
      : pipe_(pipe), own_(pipe.read[static_cast<size_t>(reader)]), num_spins_(num_spins) {}

  // Fills `bytes`. False: they have not come, and `goes_on` said no.
  bool read(std::span<std::byte> bytes, const GoesOn& goes_on);

 private:
  SharedPipe& pipe_;
  SharedWord& own_;
  int num_spins_;
  uint32_t read_ = 0;
};

}  // namespace quire
