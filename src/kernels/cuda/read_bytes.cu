// Reads every byte once; each thread has several loads under way.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ops.h"

namespace quire::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kLoads = 8;  // at once
using Chunk = Elements<4, uint32_t>;

QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, 4)
    read_kernel(const Chunk* from, int64_t num_chunks, uint32_t* sums) {
  ptx::wait_for_previous_kernel();
  const int64_t stride = int64_t{ptx::num_blocks()} * kThreads;
  uint32_t sum = 0;
  for (int64_t i = int64_t{ptx::block_index()} * kThreads + ptx::thread_index(); i < num_chunks;
       i += stride * kLoads) {
    Chunk chunks[kLoads] = {};
#pragma unroll
    for (int j = 0; j < kLoads; ++j)
      if (i + j * stride < num_chunks) chunks[j] = from[i + j * stride];
#pragma unroll
    for (const Chunk& chunk : chunks) sum ^= chunk.at[0] ^ chunk.at[1] ^ chunk.at[2] ^ chunk.at[3];
  }
#pragma unroll
  for (int mask = 16; mask >= 1; mask /= 2) sum ^= ptx::shuffle_xor(sum, mask);
  if (ptx::thread_index() % 32 == 0) ptx::atomic_xor(sums + ptx::block_index() % kReadSums, sum);
}

}  // namespace

void read_bytes(Stream& stream, const ReadBytesParams& p) {
  const int64_t chunks = p.num_bytes / 16;
  launch<read_kernel>(stream,
                      {.num_blocks = blocks_for(gpu(stream), chunks, kThreads * kLoads, 4),
                       .num_threads = kThreads},
                      static_cast<const Chunk*>(p.from), chunks, p.sums);
}

}  // namespace quire::cuda
