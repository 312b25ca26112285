#include "server/heap_trimmer.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <thread>
#include <vector>

namespace quire::server {
namespace {

size_t resident_mib() {
  std::ifstream file("/proc/self/statm");
  size_t total_pages = 0;
  size_t resident_pages = 0;
  file >> total_pages >> resident_pages;
  return resident_pages * static_cast<size_t>(sysconf(_SC_PAGESIZE)) >> 20;
}

// Allocates like a large request: many small blocks are freed at once, but one block is kept at the
// end of the heap, so that the C library gives nothing back by itself.
void use_and_free(size_t mib, std::vector<void*>& kept) {
  constexpr size_t kBlockBytes = 1000;
  std::vector<void*> blocks(mib << 20 >> 10);
  for (void*& block : blocks) {
    block = std::malloc(kBlockBytes);
    *static_cast<volatile char*>(block) = 1;
  }
  kept.push_back(std::malloc(kBlockBytes));
  for (void* block : blocks) std::free(block);
}

TEST(HeapTrimmer, MemoryGoesBackThoughItIsUsedAndFreedDuringTrims) {
#if !defined(__GLIBC__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "SKIPPED: the heap is not the C library's";
#endif
  give_back_large_blocks();
  HeapTrimmer trimmer;
  trimmer.look();
  const size_t before_mib = resident_mib();
  std::vector<void*> kept;
  for (int round = 0; round < 20; ++round) {
    std::thread first([&] { use_and_free(64, kept); });
    first.join();
    std::thread second([&] { use_and_free(64, kept); });
    trimmer.look();
    second.join();
    for (int i = 0; i < 2; ++i) trimmer.look();
    EXPECT_LT(resident_mib(), before_mib + 32) << "round " << round;
  }
  for (void* block : kept) std::free(block);
}

}  // namespace
}  // namespace quire::server
