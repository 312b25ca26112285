// Settings and counts of the KV cache. Plain structs.
#pragma once

#include <cstdint>
#include <functional>

#include "core/kv_files.h"

namespace quire {

// How a sequence reserves memory. kContiguousMaxLen is what servers did before paged attention,
// kept for comparison: the first allocation takes room for max_sequence_tokens, and nothing is
// shared.
enum class KvReservation : uint8_t { kPaged, kContiguousMaxLen };

// Settings of the files that hold KV for which device and host have no room, and that a restart
// would lose.
struct KvFileOptions {
  KvFiles* files = nullptr;    // borrowed; null: none. Needs blocks of host memory
  int64_t capacity_bytes = 0;  // of all files together
  // Blocks that are written to one file as soon as they are full.
  int32_t run_blocks = 16;
  int32_t cell_tokens = kKvCellTokens;  // tokens per cell of the files; divides every block size
  // Returns the predicted microseconds to compute num_tokens tokens behind num_cached_tokens. A
  // prefix is read from files if that is faster, by the measured speed of reading. Null: prefixes
  // are always read.
  std::function<double(int32_t num_cached_tokens, int32_t num_tokens)> compute_us = {};
};

struct KvOptions {
  bool enable_prefix_caching = true;
  uint64_t hash_seed = 0;  // random per process unless processes share hashes
  // The longest sequence in tokens (max_model_len). kContiguousMaxLen needs it; otherwise it only
  // sizes buffers.
  int32_t max_sequence_tokens = 0;
  // The most tokens of one sequence computed in one step, which bounds the blocks of a windowed
  // group. 0: unknown.
  int32_t max_step_tokens = 0;
  KvReservation reservation = KvReservation::kPaged;
  bool enable_events = false;
  // The most events kept between drains; further ones are counted as lost.
  int32_t max_events = 65536;
  // The share of allocations that are followed until eviction; 0: none.
  double residency_sample_rate = 0.01;
  int32_t max_residency_samples = 4096;  // kept between drains
  // Blocks of KvPool::kState, the null block included; 0: no layer keeps a state.
  int32_t num_state_blocks = 0;
  // Blocks of host memory for content evicted from the device, block 0 (unused) included; 0: none.
  // Host blocks for KvPool::kState need files too.
  int32_t num_host_blocks = 0;
  int32_t num_host_state_blocks = 0;
  // Returns whether reading num_tokens tokens behind num_cached_tokens back from the host is faster
  // than computing them. Must be a pure function (S-8). Null: it always is.
  std::function<bool(int32_t num_cached_tokens, int32_t num_tokens)> load_pays = {};
  KvFileOptions files = {};

  int32_t num_host(KvPool pool) const {
    return pool == KvPool::kState ? num_host_state_blocks : num_host_blocks;
  }
  // Whether blocks are shared through the prefix cache at all.
  bool reads_cache() const { return enable_prefix_caching && reservation == KvReservation::kPaged; }
};

struct KvStats {
  int32_t num_usable_blocks = 0;  // without the null block
  int32_t num_free_blocks = 0;    // including free blocks with cached content
  int32_t num_cached_blocks = 0;  // registered in the prefix cache, in use or free
  int64_t num_allocated_total = 0;
  int64_t num_evicted_total = 0;
  int64_t num_copied_total = 0;
  int64_t num_lost_events = 0;
  int32_t num_host_blocks_kept = 0;  // blocks of host memory with content
  int64_t num_offloaded_total = 0;   // blocks copied to the host
  int64_t num_loaded_total = 0;      // blocks copied back
  // Token slots in referenced blocks, and those of them without a computed token.
  int64_t num_reserved_slots = 0;
  int64_t num_unused_slots = 0;
  // Returns the share of usable blocks that are in use, in [0, 1].
  double usage() const {
    return num_usable_blocks == 0 ? 0.0
                                  : 1.0 - static_cast<double>(num_free_blocks) / num_usable_blocks;
  }
};

}  // namespace quire
