#include "server/heap_trimmer.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace quire::server {

#if defined(__GLIBC__)
namespace {

// Returns the resident bytes of this process; 0 when the system does not say.
size_t resident_bytes() {
  FILE* const file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  size_t total_pages = 0;
  size_t resident_pages = 0;
  const int num_read = std::fscanf(file, "%zu %zu", &total_pages, &resident_pages);
  std::fclose(file);
  return num_read == 2 ? resident_pages * static_cast<size_t>(sysconf(_SC_PAGESIZE)) : 0;
}

}  // namespace
#endif

void give_back_large_blocks() {
#if defined(__GLIBC__)
  mallopt(M_MMAP_THRESHOLD, 1024 * 1024);
  mallopt(M_TRIM_THRESHOLD, 8 * 1024 * 1024);
#endif
}

void keep_memory_for_the_end() {
  constexpr size_t kBytes = 768 * 1024;  // less than what is returned to the system at once
  void* const spare = std::malloc(kBytes);
  if (spare != nullptr) *static_cast<volatile char*>(spare) = 0;
  std::free(spare);
}

void HeapTrimmer::look() {
#if defined(__GLIBC__)
  constexpr size_t kWorthwhileBytes = 16 * 1024 * 1024;
  // Free memory counts as free even when the system already has it back. So memory that was freed
  // shows as a growth of the free bytes, or as a growth of the process when it was used and freed
  // since the last call.
  const size_t free_bytes = mallinfo2().fordblks;
  const size_t resident = resident_bytes();
  lowest_free_bytes_ = std::min(lowest_free_bytes_, free_bytes);
  lowest_resident_bytes_ = std::min(lowest_resident_bytes_, resident);
  const size_t growth =
      std::max(free_bytes - lowest_free_bytes_, resident - lowest_resident_bytes_);
  const bool much_freed = growth >= kWorthwhileBytes && free_bytes >= kWorthwhileBytes;
  if (!much_freed && !trims_again_) return;
  malloc_trim(0);
  // Other threads may use free memory while it is trimmed, and free it before or after the reads
  // below. Memory in use at this moment lowers the mark, so that its release will show. Memory that
  // was used and freed before this line leaves no sign, so the next call trims once more.
  lowest_resident_bytes_ = resident_bytes();
  lowest_free_bytes_ = std::min(free_bytes, mallinfo2().fordblks);
  trims_again_ = much_freed;
#endif
}

}  // namespace quire::server
