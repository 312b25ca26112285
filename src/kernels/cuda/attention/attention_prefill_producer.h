// The producer's side of the Hopper prefill kernel: how a block divides its threads and its memory,
// and how queries, keys and values are fetched.
#pragma once

#include "kernels/cuda/attention/attention_fetch.h"
#include "kernels/cuda/attention/attention_rows.h"
#include "kernels/cuda/hopper_code.h"
#include "kernels/cuda/warpgroup_layout.h"

namespace quire::cuda {

inline constexpr int kConsumerRows = 64;  // packed rows

// How the threads of a block share the work. With three consumers, each computes its softmax while
// the others' products run; at 256 dims their sums leave room for two.
template <int kHeadDim>
struct PrefillCrew {
  static constexpr int kConsumers = kHeadDim <= 128 ? 3 : 2;
  static constexpr int kThreads = kWarpgroupThreads * (1 + kConsumers);
  static constexpr int kRows = kConsumers * kConsumerRows;
  static constexpr int kProducerRegisters = 56;
  static constexpr int kConsumerRegisters = kConsumers == 3 ? 152 : 224;
  // The registers of a block, over all its threads. A block starts with the same number for each
  // thread, a multiple of eight, and can only move registers between warpgroups.
  static constexpr int kAllRegisters = 65536 / kThreads / 8 * 8 * (1 + kConsumers);
  static_assert(kProducerRegisters + kConsumers * kConsumerRegisters <= kAllRegisters);
};

inline constexpr int kProducerWarps = kWarpgroupThreads / 32;
inline constexpr int kConsumerWarps = kWarpgroupThreads / 32;  // of each consumer

template <int kHeadDim, bool kFp8>
struct PrefillMemory {
  static constexpr int kPiece = kAttentionTile * kHeadDim * 2;
  static constexpr int kSlots = kHeadDim <= 128 ? (kFp8 ? 7 : 8) : (kFp8 ? 3 : 5);
  // kCodeWarps warps of the producer expand codes; each has kWarpCodeSlots pieces of codes in
  // flight. kCodeWarps is at most kSlots, so a warp that waits for a slot is at most one round of
  // the ring ahead, which the slot's parity can tell.
  static constexpr int kCodeWarps = kHeadDim <= 128 ? 4 : 2;
  static constexpr int kWarpCodeSlots = 2;
  static constexpr int kCodeSlots = kFp8 ? kCodeWarps * kWarpCodeSlots : 0;
  static_assert(kCodeWarps <= kProducerWarps && kCodeWarps <= kSlots);
  // If there is room, the next item's query is fetched while this one's is used.
  static constexpr int kQuerySlots = kHeadDim <= (kFp8 ? 64 : 128) ? 2 : 1;
  static constexpr int kRowsBytes = kConsumerRows * kHeadDim * 2;
  static constexpr int kQuery = PrefillCrew<kHeadDim>::kConsumers * kRowsBytes;
  static constexpr int kOnesBytes = 8 * kPanelRowBytes;

  static constexpr int kQueries = 0;
  static constexpr int kPieces = kQueries + kQuerySlots * kQuery;
  static constexpr int kCodes = kPieces + kSlots * kPiece;
  static constexpr int kOnes = kCodes + kCodeSlots * kPiece / 2;
  static constexpr int kFull = kOnes + kOnesBytes;
  static constexpr int kEmpty = kFull + kSlots * 8;
  static constexpr int kCodesFull = kEmpty + kSlots * 8;
  static constexpr int kQueryFull = kCodesFull + kCodeSlots * 8;
  static constexpr int kQueryEmpty = kQueryFull + kQuerySlots * 8;
  static constexpr int kTotal = kQueryEmpty + kQuerySlots * 8;
  static_assert(kPieces % kPanelAlignment == 0 && kPiece % kPanelAlignment == 0 &&
                kOnes % kPanelAlignment == 0);
  static_assert(kTotal <= 227 << 10);
};

QUIRE_DEVICE Fetch piece_to_fetch(const AttentionArgs& args, const AttentionItem& item,
                                  const TileWalk& walk, int32_t piece) {
  const TilePiece at = tile_piece(piece, walk.num_tiles);
  return {args, item, (walk.first_tile + at.tile) * kAttentionTile, at.is_value};
}

// Makes this warp's writes visible to the consumers.
QUIRE_DEVICE void hand_over(uint64_t* full) {
  ptx::publish_shared_writes();
  ptx::sync_warp();
  if (ptx::thread_index() % 32 == 0) ptx::arrive(full);
}

// Fetches the rows of an item's query with kLoaders threads, which are whole warps.
template <int kHeadDim, int kLoaders>
QUIRE_DEVICE void fetch_query(const AttentionArgs& args, const AttentionItem& item, int thread,
                              uint8_t* to) {
  constexpr int kChunks = kHeadDim / 8;
  constexpr int kStep = kLoaders / kChunks;  // rows
  const int32_t group = args.cut.group;
  const int chunk = thread % kChunks;
  const bool has_dims = chunk * 8 < args.head_dim;
  int32_t packed = item.first_row + thread / kChunks;
  int32_t token = packed / group;
  int32_t head = packed % group;
  const bfloat16* query = args.query + item.first_token * args.query_stride +
                          int64_t{item.kv_head} * group * args.head_dim + chunk * 8;
#pragma unroll 2
  for (int row = thread / kChunks; row < PrefillCrew<kHeadDim>::kRows; row += kStep) {
    const bool valid = packed < item.end_row && has_dims;
    const int64_t at = valid ? token * args.query_stride + head * args.head_dim : 0;
    ptx::copy_async_16(to + row / kConsumerRows * kConsumerRows * kHeadDim * 2 +
                           panel_offset(row % kConsumerRows, chunk, kConsumerRows),
                       valid ? query + at : args.query, valid);
    packed += kStep;
    for (head += kStep; head >= group; head -= group) ++token;
  }
  ptx::copy_async_commit();
  ptx::copy_async_wait<0>();
}

// The first warp of the producer fetches pieces, the others fetch queries.
inline constexpr int kQueryWarps = kProducerWarps - 1;

template <int kHeadDim>
QUIRE_DEVICE void produce_queries(const AttentionArgs& args) {
  using M = PrefillMemory<kHeadDim, false>;
  const int thread = ptx::thread_index() - 32;
  RingPlace<M::kQuerySlots> place;
  for_each_prefill_item(args, [&](const AttentionItem& item) {
    ptx::wait_barrier(barrier_at(M::kQueryEmpty, place.slot), place.parity ^ 1);
    fetch_query<kHeadDim, kQueryWarps * 32>(
        args, item, thread, ptx::shared_memory() + M::kQueries + place.slot * M::kQuery);
    hand_over(barrier_at(M::kQueryFull, place.slot));
    place.advance();
  });
}

// Only one warp fetches pieces. With several, a warp that fell behind by a round of the ring would
// mistake a slot's parity for that of the round before.
template <int kHeadDim>
QUIRE_DEVICE void produce(const AttentionArgs& args, const ptx::TensorMap& keys,
                          const ptx::TensorMap& values) {
  using M = PrefillMemory<kHeadDim, false>;
  RingPlace<M::kSlots> place;
  for_each_prefill_item(args, [&](const AttentionItem& item) {
    const TileWalk walk = tile_walk(args, item);
    for (int32_t piece = 0; piece < 2 * walk.num_tiles; ++piece) {
      const Fetch fetch = piece_to_fetch(args, item, walk, piece);
      uint8_t* to = ptx::shared_memory() + M::kPieces + place.slot * M::kPiece;
      uint64_t* full = barrier_at(M::kFull, place.slot);
      ptx::wait_barrier(barrier_at(M::kEmpty, place.slot), place.parity ^ 1);
      ptx::sync_warp();
      if (fetch.is_whole()) {
        fetch_boxes<kHeadDim>(fetch, fetch.is_value ? values : keys, to, full);
      } else {
        fetch_rows<kHeadDim>(fetch, to);
        hand_over(full);
      }
      place.advance();
    }
  });
}

// The warps fetch pieces in rotation, each on its own, so that their waits overlap.
template <int kHeadDim>
QUIRE_DEVICE void produce_from_codes(const AttentionArgs& args) {
  using M = PrefillMemory<kHeadDim, true>;
  constexpr int kAhead = M::kCodeWarps * M::kWarpCodeSlots;  // pieces
  uint8_t* memory = ptx::shared_memory();
  const int warp = ptx::thread_index() / 32;
  const int lane = ptx::thread_index() % 32;
  RingPlace<M::kSlots> place;
  for (int i = 0; i < warp; ++i) place.advance();
  RingPlace<M::kWarpCodeSlots> code_place;
  RingPlace<M::kQuerySlots> query_place;
  int32_t first_piece = warp;  // of the item, for this warp
  for_each_prefill_item(args, [&](const AttentionItem& item) {
    const TileWalk walk = tile_walk(args, item);
    const int32_t num_pieces = warp < M::kCodeWarps ? 2 * walk.num_tiles : 0;
    const auto block_of = [&](int32_t piece) {
      if (piece >= num_pieces) return 0;
      return block_of_codes(piece_to_fetch(args, item, walk, piece), lane);
    };
    const auto begin_fetch = [&](int32_t piece, int32_t block, int slot) {
      if (piece >= num_pieces) return;
      fetch_codes(piece_to_fetch(args, item, walk, piece), block, lane,
                  memory + M::kCodes + slot * M::kPiece / 2, barrier_at(M::kCodesFull, slot));
    };
    const auto slot_of = [&](int i) {
      return warp * M::kWarpCodeSlots + (code_place.slot + i) % M::kWarpCodeSlots;
    };
    for (int i = 0; i < M::kWarpCodeSlots; ++i) {
      const int32_t piece = first_piece + i * M::kCodeWarps;
      begin_fetch(piece, block_of(piece), slot_of(i));
    }
    ptx::wait_barrier(barrier_at(M::kQueryEmpty, query_place.slot), query_place.parity ^ 1);
    fetch_query<kHeadDim, kWarpgroupThreads>(args, item, ptx::thread_index(),
                                             memory + M::kQueries + query_place.slot * M::kQuery);
    hand_over(barrier_at(M::kQueryFull, query_place.slot));
    query_place.advance();
    int32_t piece = first_piece;
    for (; piece < num_pieces; piece += M::kCodeWarps) {
      const int32_t next_block = block_of(piece + kAhead);  // loaded while this piece is expanded
      const int slot = slot_of(0);
      ptx::wait_barriers(barrier_at(M::kCodesFull, slot), code_place.parity,
                         barrier_at(M::kEmpty, place.slot), place.parity ^ 1);
      expand_codes<kHeadDim>(piece_to_fetch(args, item, walk, piece),
                             memory + M::kCodes + slot * M::kPiece / 2, lane,
                             memory + M::kPieces + place.slot * M::kPiece);
      hand_over(barrier_at(M::kFull, place.slot));
      begin_fetch(piece + kAhead, next_block, slot);
      code_place.advance();
      for (int i = 0; i < M::kCodeWarps; ++i) place.advance();
    }
    first_piece = piece - num_pieces;
  });
}

}  // namespace quire::cuda
