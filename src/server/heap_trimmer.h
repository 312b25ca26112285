// HeapTrimmer returns memory that the program has freed to the operating system. The C library
// otherwise keeps what a large request or many slow readers needed.
#pragma once

#include <cstddef>
#include <limits>

namespace quire::server {

// Makes the C library take blocks of 1 MiB and more from the system one by one, return each when it
// is freed, and keep at most 8 MiB at the end of each of its heaps. By default it keeps blocks of
// up to 32 MiB once it has seen them freed, and twice that at each end, where trimming does not
// reach. This changes the whole process, so a program calls it before its threads start.
void give_back_large_blocks();

// Gives the calling thread a heap with some free memory, so that it can shut a server down when the
// system has no more memory. A thread without a heap could then allocate nothing.
void keep_memory_for_the_end();

// One thread at a time may use it.
class HeapTrimmer {
 public:
  // Must be called from time to time. It trims when much has been freed since the last call, and
  // once more at the call after that. Otherwise it only reads counters, which takes microseconds.
  void look();

 private:
  // The lowest value since the last trim.
  size_t lowest_free_bytes_ = std::numeric_limits<size_t>::max();
  size_t lowest_resident_bytes_ = std::numeric_limits<size_t>::max();
  bool trims_again_ = false;  // at the next call, whatever it reads
};

}  // namespace quire::server
