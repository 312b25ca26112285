// Gives memory that the program has freed back to the operating system: the C library keeps what a
// large request or many slow readers needed until somebody asks.
#pragma once

#include <cstddef>
#include <limits>

namespace quire::server {

// Has the C library take blocks of 1 MiB and more from the system one by one and give each back at
// once, and keep at most 8 MiB at the end of each of its heaps. By itself it keeps blocks of up to
// 32 MiB once it has seen them freed, and twice that at each end, where trimming does not reach.
// For the whole process: a program's choice, to be made before its threads start.
void give_back_large_blocks();

// Gives the calling thread a heap with some free memory, so that it can end a server in order when
// the system gives no more: a thread that has none yet could then allocate nothing.
void keep_memory_for_the_end();

// One thread at a time may use it.
class HeapTrimmer {
 public:
  // Must be called from time to time. It trims when much has been freed since the last time, and
  // once more at the look after that; otherwise it only looks, which takes microseconds.
  void look();

 private:
  // Since the last trim.
  size_t lowest_free_bytes_ = std::numeric_limits<size_t>::max();
  size_t lowest_resident_bytes_ = std::numeric_limits<size_t>::max();
  bool trims_again_ = false;  // at the next look, whatever it sees
};

}  // namespace quire::server
