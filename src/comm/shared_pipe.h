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

// This struct is at the start of the memory, all zeros at first; the ring follows. Positions count
// bytes.
struct SharedPipe {
  static constexpr uint32_t kRingBytes = 256 << 10;

  SharedWord end;                                     // bytes written
  std::array<SharedWord, RankGroup::kMaxRanks> read;  // by reader: bytes read

  static constexpr int64_t mapped_bytes();
  std::byte* ring() { return reinterpret_cast<std::byte*>(this + 1); }
};
static_assert(sizeof(SharedPipe) % 64 == 0);
constexpr int64_t SharedPipe::mapped_bytes() { return int64_t{sizeof(SharedPipe)} + kRingBytes; }

// Returns whether a waiting thread should keep waiting; it is called every 20 ms.
using GoesOn = std::function<bool()>;

// Writes to the pipe, which is borrowed. One thread may use it.
class PipeWriter {
 public:
  PipeWriter(SharedPipe& pipe, std::vector<int> readers)
      : pipe_(pipe), readers_(std::move(readers)) {}

  // Writes all parts one after the other, whatever their length. If there is room for all, readers
  // are woken once. Returns false if a reader did not read and `goes_on` returned false.
  bool write(std::initializer_list<std::span<const std::byte>> parts, const GoesOn& goes_on);

 private:
  bool wait_for_room(uint32_t num_bytes, const GoesOn& goes_on);

  SharedPipe& pipe_;
  std::vector<int> readers_;
  uint32_t end_ = 0;
  uint32_t all_read_ = 0;  // what all readers had read at the last check
};

// Reads from the pipe, which is borrowed. One thread may use it.
class PipeReader {
 public:
  // Checks for bytes `num_spins` times before it sleeps.
  PipeReader(SharedPipe& pipe, int reader, int num_spins)
      : pipe_(pipe), own_(pipe.read[static_cast<size_t>(reader)]), num_spins_(num_spins) {}

  // Fills `bytes`. Returns false if they did not come and `goes_on` returned false.
  bool read(std::span<std::byte> bytes, const GoesOn& goes_on);

 private:
  SharedPipe& pipe_;
  SharedWord& own_;
  int num_spins_;
  uint32_t read_ = 0;
};

}  // namespace quire
