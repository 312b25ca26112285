// A single block counts the pairs of each expert, sums the counts over the experts and places the
// pairs.
#include "kernels/cuda/experts/sort_pairs.h"
#include "kernels/cuda/launch.h"

namespace quire::cuda {
namespace {

constexpr int kMostThreads = 1024;
constexpr int kFewThreads = 256;
constexpr int kFewPairs = 2048;

struct Sums {
  int rows = 0;
  int tiles = 0;
};

// Returns the sums over the threads before this one, and over all in `total`. `scratch` has 32
// elements.
QUIRE_DEVICE Sums sums_before(const Sums& mine, Sums* scratch, Sums& total) {
  const int warp = ptx::thread_index() / 32;
  const int lane = ptx::thread_index() % 32;
  const auto scan = [&](Sums sums) {
#pragma unroll
    for (int delta = 1; delta < 32; delta *= 2) {
      const int rows = ptx::shuffle_up(sums.rows, delta);
      const int tiles = ptx::shuffle_up(sums.tiles, delta);
      if (lane >= delta) sums = {sums.rows + rows, sums.tiles + tiles};
    }
    return sums;
  };
  const Sums in_warp = scan(mine);
  if (lane == 31) scratch[warp] = in_warp;
  ptx::sync_threads();
  const int num_warps = ptx::block_threads() / 32;
  const Sums of_warps = scan(lane < num_warps ? scratch[lane] : Sums{});
  total = {ptx::shuffle(of_warps.rows, 31), ptx::shuffle(of_warps.tiles, 31)};
  const int before = warp > 0 ? warp - 1 : 0;
  const int rows = ptx::shuffle(of_warps.rows, before);
  const int tiles = ptx::shuffle(of_warps.tiles, before);
  return {in_warp.rows - mine.rows + (warp > 0 ? rows : 0),
          in_warp.tiles - mine.tiles + (warp > 0 ? tiles : 0)};
}

QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kMostThreads, 1) sort_pairs_kernel(const SortPairsArgs args) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  auto* scratch = reinterpret_cast<Sums*>(ptx::shared_memory());
  auto* counts = reinterpret_cast<int*>(scratch + 32);  // [X], then where the next row goes
  const int thread = ptx::thread_index();
  const int num_threads = ptx::block_threads();
  for (int i = thread; i < args.num_experts; i += num_threads) counts[i] = 0;
  ptx::sync_threads();
  // An expert of another rank gets a number that is not below num_experts.
  const auto expert_of = [&](int pair) {
    return static_cast<uint32_t>(args.expert_ids[pair] - args.first_expert);
  };
  const auto num_experts = static_cast<uint32_t>(args.num_experts);
  for (int i = thread; i < args.num_pairs; i += num_threads)
    if (expert_of(i) < num_experts) ptx::atomic_add(&counts[expert_of(i)], 1);
  ptx::sync_threads();

  // Each thread takes some neighbouring experts.
  const int per_thread = (args.num_experts + num_threads - 1) / num_threads;
  const int first = ptx::thread_index() * per_thread;
  const int end = first + per_thread < args.num_experts ? first + per_thread : args.num_experts;
  const auto tiles_of = [&](int rows) { return (rows + args.tile_rows - 1) / args.tile_rows; };
  Sums mine;
  for (int i = first; i < end; ++i) {
    mine.rows += counts[i];
    mine.tiles += tiles_of(counts[i]);
  }
  Sums total;
  Sums at = sums_before(mine, scratch, total);
  if (thread == 0) *args.num_tiles = total.tiles;
  for (int i = first; i < end; ++i) {
    const int rows = counts[i];
    for (int row = 0; row < rows; row += args.tile_rows) {
      const int left = rows - row;
      args.tiles[at.tiles++] = {i, at.rows + row, left < args.tile_rows ? left : args.tile_rows};
    }
    counts[i] = at.rows;
    at.rows += rows;
  }
  ptx::sync_threads();
  for (int i = thread; i < args.num_pairs; i += num_threads)
    if (expert_of(i) < num_experts) args.pairs[ptx::atomic_add(&counts[expert_of(i)], 1)] = i;
}

}  // namespace

void sort_pairs(Stream& stream, const SortPairsArgs& args) {
  launch<sort_pairs_kernel>(
      stream,
      {.num_blocks = args.num_pairs > 0 ? 1 : 0,
       .num_threads = args.num_pairs <= kFewPairs ? kFewThreads : kMostThreads,
       .shared_bytes = 32 * int64_t{sizeof(Sums)} + int64_t{args.num_experts} * 4},
      args);
}

}  // namespace quire::cuda
