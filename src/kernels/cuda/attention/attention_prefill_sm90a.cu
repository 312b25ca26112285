// Attention of many query rows for Hopper (FlashAttention-3, Shah et al. 2024). One warpgroup
// fetches queries, keys and values through a ring in shared memory. Two or three more multiply them
// with 64 packed rows each, and each computes its softmax while the products of the others run.
// Within a warpgroup the scores of the next tile begin before the values of this one are added, and
// become weights meanwhile. A row's arithmetic is that of attention_rows.h, tile by tile; warpgroup
// products round as those of a single warp do.
#include "kernels/cuda/attention/attention_kernels.h"
#include "kernels/cuda/attention/attention_prefill_producer.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ring/tensor_maps.h"

namespace quire::cuda {
namespace {

// Begins scores = query x keys, for 64 rows of the query and a piece, given by their addresses.
template <int kHeadDim>
QUIRE_DEVICE void begin_scores(uint32_t query, uint32_t keys, float (&scores)[8][4]) {
  const uint64_t a = panel_descriptor(query);
  const uint64_t b = panel_descriptor(keys);
  ptx::pin_registers(scores);
  ptx::begin_products();
  unrolled<kHeadDim / 16>([&](auto k) {
    constexpr uint32_t kOffset = k / 4 * kAttentionTile * kPanelRowBytes + k % 4 * 32;
    ptx::multiply_panels(scores, moved_descriptor(a, kOffset), moved_descriptor(b, kOffset), k > 0);
  });
  ptx::commit_products();
}

template <int kHeadDim>
QUIRE_DEVICE void pin_sums(RowSums<kHeadDim>& rows) {
  unrolled<RowSums<kHeadDim>::kPanels>([&](auto p) { ptx::pin_registers(rows.sums[p]); });
}

// Begins sums += weights x the values of a piece, and weight += weights x ones.
template <int kHeadDim>
QUIRE_DEVICE void begin_sums(RowSums<kHeadDim>& rows, float (&weight)[1][4],
                             const uint32_t (&weights)[4][4], uint32_t values, uint32_t ones) {
  constexpr int kPanels = RowSums<kHeadDim>::kPanels;
  const uint64_t b = panel_descriptor(values);
  pin_sums(rows);
  ptx::pin_registers(weight);
  ptx::begin_products();
  unrolled<kAttentionTile / 16 * kPanels>([&](auto i) {
    constexpr int kStep = i / kPanels;  // 16 positions each
    constexpr int kPanel = i % kPanels;
    constexpr uint32_t kOffset = (kPanel * kAttentionTile + kStep * 16) * kPanelRowBytes;
    ptx::multiply_panel<true>(rows.sums[kPanel], weights[kStep], moved_descriptor(b, kOffset),
                              true);
    if constexpr (kPanel == kPanels - 1)
      ptx::multiply_panel(weight, weights[kStep], panel_descriptor(ones));
  });
  ptx::commit_products();
}

template <int kHeadDim>
QUIRE_DEVICE void end_sums(RowSums<kHeadDim>& rows, float (&weight)[1][4]) {
  ptx::wait_products<0>();
  pin_sums(rows);
  ptx::pin_registers(weight);
}

QUIRE_DEVICE void arrive_for_warp(uint64_t* barrier) {
  if (ptx::thread_index() % 32 == 0) ptx::arrive(barrier);
}

// A consumer's view of a slot of the ring.
struct Piece {
  int slot;
  uint32_t address;
};

// A consumer's side of the rings.
template <typename M>
struct Consumer {
  int index = 0;
  RingPlace<M::kSlots> place{};
  RingPlace<M::kQuerySlots> query_place{};

  // Waits for the item's 64 rows of the query, and returns their address.
  QUIRE_DEVICE uint32_t query() const {
    ptx::wait_barrier(barrier_at(M::kQueryFull, query_place.slot), query_place.parity);
    return ptx::shared_address(ptx::shared_memory() + M::kQueries + query_place.slot * M::kQuery +
                               index * M::kRowsBytes);
  }
  // Marks the query as no longer used by this warp.
  QUIRE_DEVICE void release_query() {
    arrive_for_warp(barrier_at(M::kQueryEmpty, query_place.slot));
    query_place.advance();
  }

  // Waits for the next piece, or the next two, and returns them.
  QUIRE_DEVICE Piece next() {
    ptx::wait_barrier(barrier_at(M::kFull, place.slot), place.parity);
    return advance();
  }
  QUIRE_DEVICE void next(Piece& first, Piece& second) {
    const RingPlace<M::kSlots> before = place;
    first = advance();
    ptx::wait_barriers(barrier_at(M::kFull, before.slot), before.parity,
                       barrier_at(M::kFull, place.slot), place.parity);
    second = advance();
  }
  // Marks the piece as no longer used by this warp.
  QUIRE_DEVICE static void release(const Piece& piece) {
    arrive_for_warp(barrier_at(M::kEmpty, piece.slot));
  }

 private:
  QUIRE_DEVICE Piece advance() {
    const int slot = place.slot;
    place.advance();
    return {slot, ptx::shared_address(ptx::shared_memory() + M::kPieces + slot * M::kPiece)};
  }
};

// Returns the floats of scratch of a consumer with fold_splits.
constexpr int64_t total_floats(int head_dim) {
  return int64_t{row_total_floats(head_dim)} * kWarpgroupThreads;
}
template <int kHeadDim>
QUIRE_DEVICE FoldStore fold_store(const AttentionArgs& args, int consumer) {
  const int64_t before =
      (ptx::block_index() * PrefillCrew<kHeadDim>::kConsumers + consumer) * total_floats(kHeadDim);
  return {reinterpret_cast<FoldStore::Four*>(args.totals + before) +
              ptx::thread_index() % kWarpgroupThreads,
          kWarpgroupThreads};
}
template <int kHeadDim>
constexpr PrefillShape shape_for(int64_t num_blocks) {
  using C = PrefillCrew<kHeadDim>;
  return {.item_rows = C::kRows,
          .total_floats = num_blocks * C::kConsumers * total_floats(kHeadDim)};
}

QUIRE_DEVICE void compute_before_waiting(const float (&scores)[8][4]) {
  uint32_t bits = 0;
  unrolled<32>([&](auto i) { bits |= ptx::float_to_bits(scores[i / 4][i % 4]); });
  ptx::compute_before_waiting(bits);
}

template <int kHeadDim, typename M>
QUIRE_DEVICE void consume_item(const AttentionArgs& args, const AttentionItem& item,
                               Consumer<M>& consumer) {
  const TileWalk walk = tile_walk(args, item);
  const int thread = ptx::thread_index() % kWarpgroupThreads;
  const int32_t first_row = item.first_row + consumer.index * kConsumerRows + thread / 32 * 16;
  const float factor = score_factor(args, item);
  const uint32_t ones = ptx::shared_address(ptx::shared_memory() + M::kOnes);
  RowSums<kHeadDim> rows;
  RowSoftmax softmax;
  clear(rows);
  clear(softmax.maximum);
  clear(softmax.weight);
  float scores[8][4];
  float shrink[2];
  uint32_t weights[4][4];
  const auto weigh = [&](int32_t tile) {
    cap_scores(args, item, scores);
    if (args.alibi_slopes != nullptr || walk.needs_check(tile)) {
      const int32_t first_position = (walk.first_tile + tile) * kAttentionTile;
      if (args.alibi_slopes != nullptr) apply_alibi(args, item, first_row, first_position, scores);
      if (walk.needs_check(tile)) hide_scores(args, item, first_row, first_position, scores);
    }
    weigh_scores(softmax.maximum, factor, scores, shrink);
  };

  const uint32_t query = consumer.query();
  const Piece first_keys = consumer.next();
  begin_scores<kHeadDim>(query, first_keys.address, scores);
  ptx::wait_products<0>();
  ptx::pin_registers(scores);
  consumer.release(first_keys);
  weigh(0);  // no sums exist yet that would shrink
  pack_weights(scores, weights);

  const FoldStore store = fold_store<kHeadDim>(args, consumer.index);
  bool is_first = true;
  int32_t tiles_left = walk.tiles_before_fold();
  for (int32_t tile = 1; tile < walk.num_tiles; ++tile) {
    Piece keys, values;
    consumer.next(keys, values);
    begin_scores<kHeadDim>(query, keys.address, scores);
    begin_sums(rows, softmax.weight, weights, values.address, ones);
    ptx::wait_products<1>();
    ptx::pin_registers(scores);
    consumer.release(keys);
    const bool ends_split = --tiles_left == 0;  // after the values that are being added
    const float ended[2] = {softmax.maximum[0], softmax.maximum[1]};
    if (ends_split) clear(softmax.maximum);
    weigh(tile);
    compute_before_waiting(scores);
    end_sums(rows, softmax.weight);
    ptx::pin_registers(scores);
    consumer.release(values);
    pack_weights(scores, weights);  // only here are the previous weights free
    if (ends_split) {
      RowTotals split = totals_of(ended, softmax.weight);
      fold_rows(rows, split, store, is_first, false);
      clear(softmax.weight);
      is_first = false;
      tiles_left = walk.tiles_per_split;
    } else if (ptx::ballot(shrink[0] != 1.0f || shrink[1] != 1.0f) != 0) {
      shrink_rows(rows, softmax.weight, shrink);  // mostly all factors are 1, which changes nothing
    }
  }
  consumer.release_query();
  const Piece last_values = consumer.next();
  begin_sums(rows, softmax.weight, weights, last_values.address, ones);
  end_sums(rows, softmax.weight);
  consumer.release(last_values);
  RowTotals totals = totals_of(softmax.maximum, softmax.weight);
  if (walk.folds) fold_rows(rows, totals, store, is_first, true);
  store_rows(args, item, first_row, rows, totals);
}

template <int kHeadDim, bool kFp8>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(PrefillCrew<kHeadDim>::kThreads, 1)
    warpgroup_prefill_kernel(const AttentionArgs args,
                             const QUIRE_GRID_CONSTANT ptx::TensorMap keys,
                             const QUIRE_GRID_CONSTANT ptx::TensorMap values) {
  using C = PrefillCrew<kHeadDim>;
  using M = PrefillMemory<kHeadDim, kFp8>;
  if (ptx::thread_index() == 0) {
    for (int i = 0; i < M::kSlots; ++i) {
      ptx::init_barrier(barrier_at(M::kFull, i), 1);
      ptx::init_barrier(barrier_at(M::kEmpty, i), C::kConsumers * kConsumerWarps);
    }
    for (int i = 0; i < M::kQuerySlots; ++i) {
      ptx::init_barrier(barrier_at(M::kQueryFull, i), kFp8 ? kProducerWarps : kQueryWarps);
      ptx::init_barrier(barrier_at(M::kQueryEmpty, i), C::kConsumers * kConsumerWarps);
    }
    for (int i = 0; i < M::kCodeSlots; ++i) ptx::init_barrier(barrier_at(M::kCodesFull, i), 1);
  }
  auto* ones = reinterpret_cast<uint32_t*>(ptx::shared_memory() + M::kOnes);
  for (int i = ptx::thread_index(); i < M::kOnesBytes / 4; i += C::kThreads) ones[i] = kBf16Ones;
  ptx::publish_shared_writes();
  ptx::sync_threads();
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  // The number is taken from a lane, so that the compiler knows it is the same in the whole warp,
  // as descriptors must be.
  const int warpgroup = ptx::shuffle(ptx::thread_index() / kWarpgroupThreads, 0);
  if (warpgroup == 0) {
    ptx::give_back_registers<C::kProducerRegisters>();
    if constexpr (kFp8) {
      produce_from_codes<kHeadDim>(args);
    } else if (ptx::thread_index() < 32) {
      produce<kHeadDim>(args, keys, values);
    } else {
      produce_queries<kHeadDim>(args);
    }
  } else {
    ptx::take_registers<C::kConsumerRegisters>();
    Consumer<M> consumer;
    consumer.index = warpgroup - 1;
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
  const ptx::TensorMap* const map = TensorMaps::of(stream).find(shape);
  if (map != nullptr) return *map;
  gpu(stream).fail(internal_error("CUDA: no tensor map of a cache of head dim {}", args.head_dim));
  return {};
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
      {.num_blocks = gpu(stream).info().num_sms,
       .num_threads = PrefillCrew<kHeadDim>::kThreads,
       .shared_bytes = PrefillMemory<kHeadDim, kFp8>::kTotal},
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
  if (head_dim <= 64) return shape_for<64>(num_blocks);
  if (head_dim <= 128) return shape_for<128>(num_blocks);
  return shape_for<256>(num_blocks);
}

void launch_warpgroup_prefill_attention(Stream& stream, const AttentionArgs& args) {
  if (args.head_dim <= 64) return launch_for<64>(stream, args);
  if (args.head_dim <= 128) return launch_for<128>(stream, args);
  launch_for<256>(stream, args);
}

}  // namespace quire::cuda
