// This is attention of many query rows for Hopper (FlashAttention-3, Shah et al. 2024). One
// warpgroup fetches keys and values through a ring in shared memory; two more multiply them with 64
// packed rows each and take turns, so that one's softmax runs while the other's products do. Within
// a warpgroup the scores of the next tile are begun before the values of this one are added. A
// row's arithmetic is that of attention_rows.h, tile by tile.
#include "kernels/cuda/attention/attention_fetch.h"
#include "kernels/cuda/attention/attention_kernels.h"
#include "kernels/cuda/attention/attention_rows.h"
#include "kernels/cuda/hopper_code.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/warpgroup_layout.h"

namespace quire::cuda {
namespace {

constexpr int kConsumers = 2;
constexpr int kThreads = kGroupThreads * (1 + kConsumers);
constexpr int kRows = 64;  // of a consumer
constexpr int kProducerRegisters = 40;
constexpr int kConsumerRegisters = 232;  // 128 * 40 + 256 * 232 <= 65,536

// These are named barriers; consumer c has kRowsBarrier + c and kTurnBarrier + c.
constexpr int kProducerBarrier = 1;
constexpr int kRowsBarrier = 2;
constexpr int kTurnBarrier = 4;

template <int kHeadDim, bool kFp8>
struct Memory {
  static constexpr int kPiece = kAttentionTile * kHeadDim * 2;
  static constexpr int kSlots = kHeadDim <= 128 ? (kFp8 ? 8 : 12) : (kFp8 ? 4 : 5);
  static constexpr int kCodeSlots = kFp8 ? (kHeadDim <= 128 ? 4 : 2) : 0;
  static constexpr int kQuery = 0;
  static constexpr int kPieces = kQuery + kConsumers * kRows * kHeadDim * 2;
  static constexpr int kCodes = kPieces + kSlots * kPiece;
  static constexpr int kFull = kCodes + kCodeSlots * kPiece / 2;
  static constexpr int kEmpty = kFull + kSlots * 8;
  static constexpr int kCodesFull = kEmpty + kSlots * 8;
  static constexpr int kTotal = kCodesFull + kCodeSlots * 8;
  static_assert(kPieces % kPanelAlignment == 0 && kPiece % kPanelAlignment == 0);
  static_assert(kTotal <= 227 << 10);
};

QUIRE_DEVICE uint64_t* barrier_at(int offset, int i) {
  return reinterpret_cast<uint64_t*>(ptx::shared_memory() + offset) + i;
}

QUIRE_DEVICE Fetch piece_to_fetch(const AttentionArgs& args, const AttentionItem& item,
                                  const TileWalk& walk, int32_t piece) {
  const TilePiece at = tile_piece(piece, walk.num_tiles);
  return {args, item, (walk.first_tile + at.tile) * kAttentionTile, at.is_value};
}

// Only one warp fetches: another that fell behind by a round of the ring would take a slot's parity
// for that of the round before.
template <int kHeadDim>
QUIRE_DEVICE void produce(const AttentionArgs& args, const ptx::TensorMap& keys,
                          const ptx::TensorMap& values) {
  using M = Memory<kHeadDim, false>;
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
        ptx::publish_shared_writes();
        ptx::sync_warp();
        if (ptx::thread_index() == 0) ptx::arrive(full);
      }
      place.advance();
    }
  });
}

// Makes what the whole producer wrote visible to the consumers.
QUIRE_DEVICE void hand_over(uint64_t* full) {
  ptx::publish_shared_writes();
  ptx::sync_named(kProducerBarrier, kGroupThreads);
  if (ptx::thread_index() == 0) ptx::arrive(full);
}

template <int kHeadDim>
QUIRE_DEVICE void produce_from_codes(const AttentionArgs& args) {
  using M = Memory<kHeadDim, true>;
  uint8_t* memory = ptx::shared_memory();
  RingPlace<M::kSlots> place;
  RingPlace<M::kCodeSlots> code_place;
  for_each_prefill_item(args, [&](const AttentionItem& item) {
    const TileWalk walk = tile_walk(args, item);
    const int32_t num_pieces = 2 * walk.num_tiles;
    const auto begin_fetch = [&](int32_t piece, int slot) {
      if (piece >= num_pieces) return;
      fetch_codes(piece_to_fetch(args, item, walk, piece),
                  memory + M::kCodes + slot * M::kPiece / 2, barrier_at(M::kCodesFull, slot));
    };
    for (int32_t piece = 0; piece < M::kCodeSlots; ++piece)
      begin_fetch(piece, (code_place.slot + piece) % M::kCodeSlots);
    for (int32_t piece = 0; piece < num_pieces; ++piece) {
      ptx::wait_barrier(barrier_at(M::kCodesFull, code_place.slot), code_place.parity);
      ptx::wait_barrier(barrier_at(M::kEmpty, place.slot), place.parity ^ 1);
      expand_codes<kHeadDim>(piece_to_fetch(args, item, walk, piece),
                             memory + M::kCodes + code_place.slot * M::kPiece / 2,
                             memory + M::kPieces + place.slot * M::kPiece);
      hand_over(barrier_at(M::kFull, place.slot));
      begin_fetch(piece + M::kCodeSlots, code_place.slot);
      place.advance();
      code_place.advance();
    }
  });
}

// These are a consumer's 64 rows of the query; at 256 dims there are no registers for them.
template <int kHeadDim>
struct Query {
  static constexpr bool kInRegisters = kHeadDim <= 128;
  uint32_t registers[kInRegisters ? kHeadDim / 16 : 1][4];
  uint32_t address;  // in shared memory
};

template <int kHeadDim>
QUIRE_DEVICE void load_rows(const AttentionArgs& args, const AttentionItem& item, int consumer,
                            uint8_t* to, Query<kHeadDim>& query) {
  constexpr int kChunks = kHeadDim / 8;
  const int32_t group = args.cut.group;
  const int thread = ptx::thread_index() % kGroupThreads;
  ptx::sync_named(kRowsBarrier + consumer, kGroupThreads);  // nobody reads the last item's
#pragma unroll 4
  for (int i = thread; i < kRows * kChunks; i += kGroupThreads) {
    const int row = i / kChunks;
    const int chunk = i % kChunks;
    const int32_t packed = item.first_row + consumer * kRows + row;
    const bool valid = packed < item.end_row && chunk * 8 < args.head_dim;
    const int64_t token = valid ? item.first_token + packed / group : item.first_token;
    const int64_t head = item.kv_head * group + (valid ? packed % group : 0);
    const bfloat16* from =
        args.query + token * args.query_stride + head * args.head_dim + (valid ? chunk * 8 : 0);
    ptx::copy_async_16(to + panel_offset(row, chunk, kRows), from, valid);
  }
  ptx::copy_async_commit();
  ptx::copy_async_wait<0>();
  ptx::publish_shared_writes();
  ptx::sync_named(kRowsBarrier + consumer, kGroupThreads);
  query.address = ptx::shared_address(to);
  if constexpr (Query<kHeadDim>::kInRegisters) {
    const int lane = thread % 32;
#pragma unroll
    for (int k = 0; k < kHeadDim / 16; ++k) {
      ptx::load_matrices(query.registers[k],
                         to + panel_offset(thread / 32 * 16 + lane % 16, k * 2 + lane / 16, kRows));
    }
  }
}

// Begins scores = query x keys of a piece.
template <int kHeadDim>
QUIRE_DEVICE void begin_scores(const Query<kHeadDim>& query, uint32_t keys, float (&scores)[8][4]) {
  ptx::pin_registers(scores);
  ptx::begin_products();
#pragma unroll
  for (int k = 0; k < kHeadDim / 16; ++k) {
    const uint32_t offset = k / 4 * kAttentionTile * kPanelRowBytes + k % 4 * 32;
    const uint64_t b = panel_descriptor(keys + offset);
    if constexpr (Query<kHeadDim>::kInRegisters) {
      ptx::multiply_panel<false>(scores, query.registers[k], b, k > 0);
    } else {
      ptx::multiply_panels(scores, panel_descriptor(query.address + offset), b, k > 0);
    }
  }
  ptx::commit_products();
}

// The function goes over panels by recursion: loops over them are unrolled after the compiler has
// put the sums of four panels into memory, and then each product waits for the one before it.
template <int kHeadDim, int kPanel = 0>
QUIRE_DEVICE void pin_sums(RowSums<kHeadDim>& rows) {
  if constexpr (kPanel < RowSums<kHeadDim>::kPanels) {
    ptx::pin_registers(rows.sums[kPanel]);
    pin_sums<kHeadDim, kPanel + 1>(rows);
  }
}
template <int kHeadDim, int kProduct = 0>
QUIRE_DEVICE void add_values(RowSums<kHeadDim>& rows, const uint32_t (&weights)[4][4],
                             uint32_t values) {
  constexpr int kPanels = RowSums<kHeadDim>::kPanels;
  constexpr int kStep = kProduct / kPanels;  // of 16 positions
  constexpr int kPanel = kProduct % kPanels;
  if constexpr (kStep < kAttentionTile / 16) {
    constexpr uint32_t kOffset = (kPanel * kAttentionTile + kStep * 16) * kPanelRowBytes;
    ptx::multiply_panel<true>(rows.sums[kPanel], weights[kStep], panel_descriptor(values + kOffset),
                              true);
    add_values<kHeadDim, kProduct + 1>(rows, weights, values);
  }
}

// Begins sums += weights x values of a piece.
template <int kHeadDim>
QUIRE_DEVICE void begin_sums(RowSums<kHeadDim>& rows, const uint32_t (&weights)[4][4],
                             uint32_t values) {
  pin_sums(rows);
  ptx::begin_products();
  add_values(rows, weights, values);
  ptx::commit_products();
}

template <int kHeadDim>
QUIRE_DEVICE void end_sums(RowSums<kHeadDim>& rows) {
  ptx::wait_products<0>();
  pin_sums(rows);
}

// Returns the scratch of a block with fold_splits.
constexpr int64_t total_floats(int head_dim) {
  return int64_t{row_total_floats(head_dim)} * kConsumers * kGroupThreads;
}

// This is the consumers' side of the ring, and their turns.
template <typename M>
struct Consumer {
  int index = 0;
  RingPlace<M::kSlots> place;

  // Returns the address of the next piece once it is there.
  QUIRE_DEVICE uint32_t next() const {
    ptx::wait_barrier(barrier_at(M::kFull, place.slot), place.parity);
    return ptx::shared_address(ptx::shared_memory() + M::kPieces + place.slot * M::kPiece);
  }
  // Says that this warp is done with the piece of that slot.
  QUIRE_DEVICE static void release(int slot) {
    if (ptx::thread_index() % 32 == 0) ptx::arrive(barrier_at(M::kEmpty, slot));
  }
  QUIRE_DEVICE void take_turn() const {
    ptx::sync_named(kTurnBarrier + index, kConsumers * kGroupThreads);
  }
  QUIRE_DEVICE void give_turn() const {
    ptx::arrive_named(kTurnBarrier + 1 - index, kConsumers * kGroupThreads);
  }
};

template <int kHeadDim, typename M>
QUIRE_DEVICE void consume_item(const AttentionArgs& args, const AttentionItem& item,
                               Consumer<M>& consumer) {
  const TileWalk walk = tile_walk(args, item);
  const int thread = ptx::thread_index() % kGroupThreads;
  const int32_t first_row = item.first_row + consumer.index * kRows + thread / 32 * 16;
  float* totals = args.totals + ptx::block_index() * total_floats(kHeadDim) +
                  consumer.index * kGroupThreads + thread;
  constexpr int kTotalStride = kConsumers * kGroupThreads;

  Query<kHeadDim> query;
  load_rows(args, item, consumer.index,
            ptx::shared_memory() + M::kQuery + consumer.index * kRows * kHeadDim * 2, query);
  RowSums<kHeadDim> rows;
  clear(rows);
  float scores[8][4];
  uint32_t weights[4][4];
  const auto weigh = [&](int32_t tile, float(&shrink)[2], uint32_t(&to)[4][4]) {
    scale_and_mask(args, item, first_row, (walk.first_tile + tile) * kAttentionTile,
                   walk.needs_check(tile), scores);
    take_weights(rows, scores, to, shrink);
  };

  consumer.take_turn();
  begin_scores(query, consumer.next(), scores);
  consumer.give_turn();
  ptx::wait_products<0>();
  ptx::pin_registers(scores);
  consumer.release(consumer.place.slot);
  consumer.place.advance();
  float shrink[2];
  weigh(0, shrink, weights);  // there are no sums yet

  bool is_first = true;
  const uint32_t zero = static_cast<uint32_t>(args.num_kv_heads) >> 31;
  for (int32_t tile = 1; tile < walk.num_tiles; ++tile) {
    consumer.take_turn();
    const int key_slot = consumer.place.slot;
    begin_scores(query, consumer.next(), scores);
    consumer.place.advance();
    const int value_slot = consumer.place.slot;
    begin_sums(rows, weights, consumer.next());
    consumer.place.advance();
    consumer.give_turn();
    uint32_t next_weights[4][4];
    if (walk.folds && walk.ends_split(tile - 1)) {
      end_sums(rows);
      ptx::pin_registers(scores);
      consumer.release(key_slot);
      consumer.release(value_slot);
      fold_rows(rows, totals, kTotalStride, is_first, false);
      is_first = false;
      weigh(tile, shrink, next_weights);
    } else {
      ptx::wait_products<1>();
      ptx::pin_registers(scores);
      consumer.release(key_slot);
      weigh(tile, shrink, next_weights);
      end_sums(rows);
      consumer.release(value_slot);
      // Mostly no maximum grew, and x * 1 is x.
      if (ptx::ballot(shrink[0] != 1.0f || shrink[1] != 1.0f) != 0) shrink_sums(rows, shrink);
    }
    // Operands of products are written between products only, or the compiler makes each wait for
    // the one before it; the zero, unknown to it, keeps these from being written where they are
    // made.
#pragma unroll
    for (int k = 0; k < 4; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) weights[k][i] = ptx::xor_here(next_weights[k][i], zero);
    }
  }
  begin_sums(rows, weights, consumer.next());
  end_sums(rows);
  consumer.release(consumer.place.slot);
  consumer.place.advance();
  if (walk.folds) fold_rows(rows, totals, kTotalStride, is_first, true);
  store_rows(args, item, first_row, rows);
}

template <int kHeadDim, bool kFp8>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, 1)
    warpgroup_prefill_kernel(const AttentionArgs args,
                             const QUIRE_GRID_CONSTANT ptx::TensorMap keys,
                             const QUIRE_GRID_CONSTANT ptx::TensorMap values) {
  using M = Memory<kHeadDim, kFp8>;
  if (ptx::thread_index() == 0) {
    for (int i = 0; i < M::kSlots; ++i) {
      ptx::init_barrier(barrier_at(M::kFull, i), 1);
      ptx::init_barrier(barrier_at(M::kEmpty, i), kConsumers * kGroupThreads / 32);
    }
    for (int i = 0; i < M::kCodeSlots; ++i) ptx::init_barrier(barrier_at(M::kCodesFull, i), 1);
    ptx::publish_shared_writes();
  }
  ptx::sync_threads();
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  // The number comes from a lane, so that the compiler knows it to be the warp's: descriptors are
  // made of it.
  const int warpgroup = ptx::shuffle(ptx::thread_index() / kGroupThreads, 0);
  if (warpgroup == 0) {
    ptx::give_back_registers<kProducerRegisters>();
    if constexpr (kFp8) {
      produce_from_codes<kHeadDim>(args);
    } else if (ptx::thread_index() < 32) {
      produce<kHeadDim>(args, keys, values);
    }
  } else {
    ptx::take_registers<kConsumerRegisters>();
    Consumer<M> consumer{.index = warpgroup - 1, .place = {}};
    if (consumer.index == 1) consumer.give_turn();  // consumer 0 begins
    for_each_prefill_item(
        args, [&](const AttentionItem& item) { consume_item<kHeadDim>(args, item, consumer); });
  }
}

ptx::TensorMap cache_map(Stream& stream, const AttentionArgs& args, const uint8_t* cache) {
  const int32_t block_size = 1 << args.block_shift;
  const CacheMapShape shape{.base = cache,
                            .head_dim = args.head_dim,
                            .block_size = block_size,
                            .num_kv_heads = args.num_kv_heads,
                            .block_stride = args.block_stride,
                            .box_rows = block_size < kAttentionTile ? block_size : kAttentionTile};
  ptx::TensorMap map{};
  if (!is_mappable(shape) || !ptx::encode_cache_map(shape, &map))
    gpu(stream).fail(
        internal_error("CUDA: no tensor map of a cache of head dim {}", args.head_dim));
  return map;
}

template <int kHeadDim, bool kFp8>
void launch_as(Stream& stream, const AttentionArgs& args) {
  ptx::TensorMap keys{};
  ptx::TensorMap values{};
  if (!kFp8) {
    keys = cache_map(stream, args, args.key);
    values = cache_map(stream, args, args.value);
  }
  launch<warpgroup_prefill_kernel<kHeadDim, kFp8>>(
      stream,
      {.num_blocks = warpgroup_prefill_shape(stream, kHeadDim).num_blocks,
       .num_threads = kThreads,
       .shared_bytes = Memory<kHeadDim, kFp8>::kTotal},
      args, keys, values);
}
template <int kHeadDim>
void launch_for(Stream& stream, const AttentionArgs& args) {
  if (args.is_fp8) return launch_as<kHeadDim, true>(stream, args);
  launch_as<kHeadDim, false>(stream, args);
}

}  // namespace

PrefillShape warpgroup_prefill_shape(const Stream& stream, int head_dim) {
  const int64_t num_blocks = gpu(stream).info().num_sms;
  return {.item_rows = kConsumers * kRows,
          .num_blocks = num_blocks,
          .total_floats = num_blocks * total_floats(padded_head_dim(head_dim))};
}

void launch_warpgroup_prefill_attention(Stream& stream, const AttentionArgs& args) {
  if (args.head_dim <= 64) return launch_for<64>(stream, args);
  if (args.head_dim <= 128) return launch_for<128>(stream, args);
  launch_for<256>(stream, args);
}

}  // namespace quire::cuda
