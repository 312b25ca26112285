// How the KV cache keeps its books, and what it counts. Plain structs.
#pragma once

#include <cstdint>
#include <functional>

#include "core/kv_files.h"

namespace quire {

// How a sequence claims memory. kContiguousMaxLen is what servers did before paged attention, kept
// as a yardstick: the first allocation takes room for max_sequence_tokens and nothing is shared.
enum class KvReservation : uint8_t { kPaged, kContiguousMaxLen };

// Files that hold what neither the device nor the host has room for, and what a restart would lose.
struct KvFileOptions {
  KvFiles* files = nullptr;             // borrowed; null: none. Needs blocks of host memory
  int64_t capacity_bytes = 0;           // of all files together
  int32_t run_blocks = 16;              // written to one file as soon as there are so many
  int32_t cell_tokens = kKvCellTokens;  // of the files' cells; block sizes are multiples of it
  // Returns the predicted microseconds to compute num_tokens tokens behind num_cached_tokens. A
  // prefix is read from files when that is sooner done, by the time that reading has taken. Null:
  // prefixes are always read.
  std::function<double(int32_t num_cached_tokens, int32_t num_tokens)> compute_us = {};
};

struct KvOptions {
  bool enable_prefix_caching = true;
  uint64_t hash_seed = 0;  // random per process unless processes share hashes
  // The longest sequence in tokens (max_model_len). kContiguousMaxLen needs it; otherwise it only
  // sizes buffers.
  int32_t max_sequence_tokens = 0;
  // Most tokens of one sequence computed in one step; bounds what a windowed group holds. 0: no
  // bound known.
  int32_t max_step_tokens = 0;
  KvReservation reservation = KvReservation::kPaged;
  bool enable_events = false;
  // Events kept between drains: older ones stay, newer ones are counted as lost.
  int32_t max_events = 65536;
  // The share of allocations that are followed until eviction; 0 follows none.
  double residency_sample_rate = 0.01;
  int32_t max_residency_samples = 4096;  // kept between drains
  // Blocks of KvPool::kState, the null block included; 0: no layer keeps a state.
  int32_t num_state_blocks = 0;
  // Blocks of host memory for what leaves the device's blocks, block 0 (unused) included; 0 is
  // none. Those of KvPool::kState need files too.
  int32_t num_host_blocks = 0;
  int32_t num_host_state_blocks = 0;
  // Whether reading num_tokens tokens back from the host, behind num_cached_tokens, is sooner done
  // than computing them. Must be a pure function (S-8); null: always.
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
  int32_t num_free_blocks = 0;    // cached ones included
  int32_t num_cached_blocks = 0;  // registered in the prefix cache, in use or free
  int64_t num_allocated_total = 0;
  int64_t num_evicted_total = 0;
  int64_t num_copied_total = 0;
  int64_t num_lost_events = 0;
  int32_t num_host_blocks_kept = 0;  // blocks of host memory with content
  int64_t num_offloaded_total = 0;   // blocks copied to the host
  int64_t num_loaded_total = 0;      // blocks copied back
  // Counts token slots in referenced blocks, and those of them that hold no computed token.
  int64_t num_reserved_slots = 0;
  int64_t num_unused_slots = 0;
  // Returns the share of usable blocks that are in use, in [0, 1].
  double usage() const {
    return num_usable_blocks == 0 ? 0.0
                                  : 1.0 - static_cast<double>(num_free_blocks) / num_usable_blocks;
  }
};

}  // namespace quire
