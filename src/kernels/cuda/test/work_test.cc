// The arithmetic on which a GPU's kernels and launches rely, tested on the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "kernels/cuda/attention/attention_work.h"
#include "kernels/cuda/attention/decode_tiles.h"
#include "kernels/cuda/attention/swizzle.h"
#include "kernels/cuda/experts/expert_tiles.h"
#include "kernels/cuda/float8.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/linear/library/matmul_key.h"
#include "kernels/cuda/ring/dense_tiles.h"
#include "kernels/cuda/warpgroup_layout.h"

namespace quire::cuda {
namespace {

TEST(ResidentBlocks, AreWhatSharedMemoryAndRegistersAllow) {
  const GpuInfo hopper{.shared_bytes_per_block = 227 << 10, .shared_bytes_per_sm = 228 << 10};
  EXPECT_EQ(resident_blocks(hopper, 0, 4), 4);
  EXPECT_EQ(resident_blocks(hopper, 56 << 10, 4), 4);
  EXPECT_EQ(resident_blocks(hopper, (56 << 10) + 1, 4), 3);
  EXPECT_EQ(resident_blocks(hopper, 75 << 10, 3), 3);
  EXPECT_EQ(resident_blocks(hopper, 76 << 10, 3), 2);
  EXPECT_EQ(resident_blocks(hopper, 227 << 10, 2), 1);
  // A block that does not fit is refused at the launch, not here.
  EXPECT_EQ(resident_blocks(hopper, 300 << 10, 2), 1);
}

TEST(ExpertItem, GoesThroughEveryColumnOfEveryTileOnce) {
  for (const int num_tiles : {1, 7, 8, 19}) {
    for (const int num_columns : {1, 3}) {
      std::set<std::pair<int, int>> seen;
      for (int item = 0; item < num_tiles * num_columns; ++item) {
        const ExpertBlock block = expert_item(item, num_tiles, num_columns);
        EXPECT_LT(block.tile, num_tiles);
        EXPECT_LT(block.column, num_columns);
        EXPECT_EQ(block.tile / kNeighbourTiles, item / num_columns / kNeighbourTiles);
        EXPECT_TRUE(seen.emplace(block.tile, block.column).second);
      }
    }
  }
}

TEST(Swizzle, EveryChunkHasItsPlaceAndEightRowsUseAllBanks) {
  for (const int chunks : {8, 16, 32}) {
    std::set<int> places;
    for (int row = 0; row < 64; ++row) {
      for (int chunk = 0; chunk < chunks; ++chunk) {
        const int offset = swizzled_offset(row, chunk, chunks);
        EXPECT_EQ(offset % 16, 0);
        EXPECT_LT(offset, 64 * chunks * 16);
        EXPECT_TRUE(places.insert(offset).second);
      }
    }
    for (int row = 0; row < 64; row += 8) {
      for (int chunk = 0; chunk < chunks; ++chunk) {
        std::set<int> banks;  // groups of four banks, 16 bytes
        for (int i = 0; i < 8; ++i) banks.insert(swizzled_offset(row + i, chunk, chunks) / 16 % 8);
        EXPECT_EQ(banks.size(), 8u);
      }
    }
  }
}

// Rows of keys and values as decode stores them: pairs of chunks are reached from the first pair,
// and rows 0 to 7 of a chunk use all banks.
template <int kChunks>
void expect_chunks_have_their_places() {
  std::set<int> places;
  for (int row = 0; row < 64; ++row) {
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const int offset = chunk_offset<kChunks>(row, chunk);
      EXPECT_EQ(pair_offset(chunk_offset<kChunks>(row, chunk % 2), chunk / 2), offset);
      EXPECT_EQ(offset / (kChunks * 16), row);
      EXPECT_TRUE(places.insert(offset).second);
    }
  }
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    std::set<int> banks;  // groups of four banks, 16 bytes
    for (int row = 0; row < 8; ++row) banks.insert(chunk_offset<kChunks>(row, chunk) / 16 % 8);
    EXPECT_EQ(banks.size(), 8u);
  }
}
TEST(DecodeTile, ChunksHaveTheirPlacesAndEightRowsUseAllBanks) {
  expect_chunks_have_their_places<4>();
  expect_chunks_have_their_places<8>();
  expect_chunks_have_their_places<16>();
  expect_chunks_have_their_places<32>();
}

TEST(Float8, FourCodesAsPairsAreWhatTheyStandFor) {
  for (uint32_t code = 0; code < 256; ++code) {
    if ((code & 0x7f) == 0x7f) continue;  // NaN becomes 480
    const uint32_t other = code ^ 0x93;
    if ((other & 0x7f) == 0x7f) continue;
    const Bf16Pairs pairs = widen_pairs(code | other << 8 | other << 16 | code << 24);
    EXPECT_EQ(pairs.even, ptx::pack_bf16(widen_e4m3(code), widen_e4m3(other)));
    EXPECT_EQ(pairs.odd, ptx::pack_bf16(widen_e4m3(other), widen_e4m3(code)));
  }
}

TEST(AttentionWork, SplitsCoverWhatIsSeenAtAbsolutePositions) {
  const AttentionCut full{.group = 4, .split_size = 256};
  const RequestCut decode = cut_request(full, 1, 1000);
  EXPECT_EQ(decode.rows, 4);
  EXPECT_EQ(decode.first_split, 0);
  EXPECT_EQ(decode.num_splits, 4);
  EXPECT_TRUE(decode.may_decode);
  EXPECT_EQ(decode.decode_items(), 4);
  EXPECT_EQ(decode.partial_rows(), 16);

  const AttentionCut window{.group = 1, .sliding_window = 300, .split_size = 256};
  const RequestCut seen = cut_request(window, 1, 1000);  // positions [700, 1000)
  EXPECT_EQ(seen.first_split, 2);
  EXPECT_EQ(seen.num_splits, 2);
}

TEST(AttentionWork, NoRequestHasMoreSplitsThanTheBound) {
  for (const int32_t window : {0, 1, 16, 255, 256, 300, 1000}) {
    const AttentionCut cut{.group = 1, .sliding_window = window, .split_size = 256};
    for (const int32_t max_len : {1, 255, 256, 257, 4096, 4097}) {
      int64_t most = 0;
      for (int32_t query_len = 1; query_len <= std::min(max_len, kDecodeRows); ++query_len) {
        for (int32_t len = std::max(query_len, max_len - 600); len <= max_len; ++len)
          most = std::max<int64_t>(most, cut_request(cut, query_len, len).num_splits);
      }
      const int64_t bound = max_decode_splits(cut, max_len);
      EXPECT_GE(bound, most) << window << " of " << max_len;
      EXPECT_LE(bound, most + 1) << window << " of " << max_len;
    }
  }
  // A cache of whole splits has room for the partial sums of every decode step.
  EXPECT_EQ(max_decode_splits({.split_size = 256}, 4096), 16);
}

// Of many requests that may be long, few are: the total length limits their splits.
TEST(AttentionWork, SplitsTogetherAreBoundByTheTotalLength) {
  const AttentionCut cut{.split_size = 512};
  EXPECT_EQ(max_total_splits(cut, 256, 256, 0), 256 * 256);
  EXPECT_EQ(max_total_splits(cut, 256, 256, 800'000), 800'000 / 512 + 256);
  EXPECT_EQ(max_total_splits(cut, 4, 2, 800'000), 8);
  for (const int32_t len : {1, 511, 512, 513, 1024, 1300}) {
    int64_t splits = 0;
    for (const int32_t other : {1, len, 700}) splits += cut_request(cut, 1, other).num_splits;
    EXPECT_GE(max_total_splits(cut, 3, 256, 1 + len + 700), splits) << len;
  }
}

TEST(AttentionWork, SplitsDependOnTheBatchOnlyWhereTheyMay) {
  for (const int64_t reqs : {1, 2, 16, 256}) EXPECT_EQ(decode_split(true, reqs, 8), 512);
  EXPECT_EQ(decode_split(false, 1, 8), 256);
  EXPECT_EQ(decode_split(false, 8, 8), 512);
  EXPECT_EQ(decode_split(false, 64, 8), 1024);
}

TEST(AttentionWork, OneSplitNeedsNoPartials) {
  const RequestCut cut = cut_request({.group = 8}, 1, 256);
  EXPECT_EQ(cut.num_splits, 1);
  EXPECT_EQ(cut.partial_rows(), 0);
}

TEST(AttentionWork, ManyRowsArePrefillAndPaddingIsNothing) {
  const AttentionCut cut{.group = 4, .prefill_rows = 128};
  const RequestCut chunk = cut_request(cut, 100, 100);
  EXPECT_FALSE(chunk.may_decode);
  EXPECT_EQ(chunk.prefill_items(cut), 4);            // 400 rows
  EXPECT_TRUE(cut_request(cut, 4, 100).may_decode);  // 16 rows fit one tile
  EXPECT_TRUE(cut_request({.group = 96}, 1, 100).may_decode);
  EXPECT_EQ(cut_request({.group = 96}, 1, 100).decode_items(), 6);
  const RequestCut padding = cut_request(cut, 0, 0);
  EXPECT_EQ(padding.decode_items() + padding.prefill_items(cut) + padding.partial_rows(), 0);
}

TEST(AttentionWork, ItemsLeadToTheirRequest) {
  const int32_t starts[] = {0, 3, 3, 7, 8};
  const int32_t owners[] = {0, 0, 0, 2, 2, 2, 2, 3};
  for (int32_t item = 0; item < 8; ++item) EXPECT_EQ(find_request(starts, 4, item), owners[item]);
}

TEST(Panel, ChunksHaveTheirPlacesAndEightRowsUseAllBanks) {
  for (const int chunks : {8, 16, 32}) {  // 64, 128 and 256 dims
    constexpr int kRows = 64;
    std::set<int> places;
    for (int row = 0; row < kRows; ++row) {
      for (int chunk = 0; chunk < chunks; ++chunk) {
        const int offset = panel_offset(row, chunk, kRows);
        EXPECT_EQ(offset % 16, 0);
        EXPECT_LT(offset, kRows * chunks * 16);
        EXPECT_TRUE(places.insert(offset).second);
        // Software writes the layout that TMA and wgmma define: rows of 128 bytes, then swizzled.
        const auto plain = static_cast<uint32_t>((chunk / 8 * kRows + row) * 128 + chunk % 8 * 16);
        EXPECT_EQ(static_cast<uint32_t>(offset), swizzled_address(plain));
        EXPECT_EQ(swizzled_address(static_cast<uint32_t>(offset)), plain);
      }
    }
    for (int row = 0; row < kRows; row += 8) {
      for (int chunk = 0; chunk < chunks; ++chunk) {
        std::set<int> banks;  // groups of four banks, 16 bytes
        for (int i = 0; i < 8; ++i) banks.insert(panel_offset(row + i, chunk, kRows) / 16 % 8);
        EXPECT_EQ(banks.size(), 8u);
      }
    }
  }
}

// The fields of PTX ISA 8.0, "Matrix Descriptor Format".
TEST(Panel, DescriptorNamesAddressStrideAndSwizzle) {
  for (const uint32_t address : {0u, 32u, 1024u, 8192u + 96u, (227u << 10) - 1024u}) {
    const uint64_t descriptor = panel_descriptor(address);
    EXPECT_EQ((descriptor & 0x3fff) << 4, address);
    EXPECT_EQ((descriptor >> 32 & 0x3fff) << 4, 1024u);
    EXPECT_EQ(descriptor >> 62, 1u);
    EXPECT_EQ(descriptor >> 49 & 7, 0u);  // panels begin at multiples of 1024
  }
}

TEST(TilePieces, EveryTileOnceAsKeysAndAsValuesInTheOrderOfUse) {
  for (int32_t num_tiles = 1; num_tiles <= 9; ++num_tiles) {
    std::set<int32_t> keys;
    std::set<int32_t> values;
    for (int32_t piece = 0; piece < 2 * num_tiles; ++piece) {
      const TilePiece at = tile_piece(piece, num_tiles);
      EXPECT_TRUE((at.is_value ? values : keys).insert(at.tile).second);
      if (at.is_value) {
        // Keys are at most one tile ahead of the values.
        EXPECT_EQ(static_cast<int32_t>(keys.size()), std::min(at.tile + 2, num_tiles));
        EXPECT_EQ(static_cast<int32_t>(values.size()), at.tile + 1);
      }
    }
    EXPECT_EQ(static_cast<int32_t>(keys.size()), num_tiles);
    EXPECT_EQ(static_cast<int32_t>(values.size()), num_tiles);
    EXPECT_EQ(*values.rbegin(), num_tiles - 1);
  }
}

TEST(RingPlace, ParityTellsOddRoundsFromEven) {
  RingPlace<5> place;
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(place.slot, i % 5);
    EXPECT_EQ(place.parity, static_cast<uint32_t>(i / 5 % 2));
    place.advance();
  }
}

TEST(CacheMap, TakesWhatTheCacheCanHave) {
  for (const int32_t block_size : {8, 16, 32, 64, 128}) {
    for (int32_t head_dim = 8; head_dim <= 256; head_dim += 8) {
      EXPECT_TRUE(is_mappable({.head_dim = head_dim,
                               .block_size = block_size,
                               .num_kv_heads = 3,
                               .block_stride = int64_t{3} * block_size * head_dim,
                               .box_rows = std::min(block_size, 64)}));
    }
  }
  EXPECT_FALSE(
      is_mappable({.head_dim = 12, .block_size = 16, .block_stride = 192, .box_rows = 16}));
}

// The shapes of an 8B model on 132 multiprocessors: few rows make 128 tiles of one warpgroup; more
// rows are divided so that every wave of blocks is nearly full.
TEST(DenseTiles, FillTheMultiprocessors) {
  const auto is = [](const TileShape& shape, int groups, int columns) {
    return shape.groups == groups && shape.columns == columns;
  };
  EXPECT_TRUE(is(dense_tile_shape(1, 4096, 132, false), 1, 32));
  EXPECT_TRUE(is(dense_tile_shape(64, 6144, 132, false), 1, 48));
  EXPECT_TRUE(is(dense_tile_shape(8, 28672, 132, true), 1, 224));
  EXPECT_TRUE(is(dense_tile_shape(128, 4096, 132, false), 1, 64));
  EXPECT_TRUE(is(dense_tile_shape(192, 4096, 132, false), 1, 96));
  EXPECT_TRUE(is(dense_tile_shape(192, 6144, 132, false), 1, 144));
  EXPECT_TRUE(is(dense_tile_shape(256, 28672, 132, false), 2, 224));
  EXPECT_TRUE(is(dense_tile_shape(1024, 6144, 132, false), 2, 192));
  EXPECT_TRUE(is(dense_tile_shape(8192, 4096, 132, false), 2, 256));
}

// Tiles of eight-bit codes are narrower, and two blocks share a multiprocessor if one block would
// need tiles that are too wide.
TEST(DenseTiles, OfEightBitCodesFillTheMultiprocessors) {
  const auto is = [](const TileShape& shape, int groups, int columns, int blocks) {
    return shape.groups == groups && shape.columns == columns && shape.blocks == blocks;
  };
  EXPECT_TRUE(is(eight_bit_tile_shape(1, 4096, 132, false), 1, 32, 1));
  EXPECT_TRUE(is(eight_bit_tile_shape(64, 6144, 132, false), 1, 48, 1));
  EXPECT_TRUE(is(eight_bit_tile_shape(1, 28672, 132, true), 1, 112, 2));
  EXPECT_TRUE(is(eight_bit_tile_shape(128, 28672, 132, false), 2, 112, 1));
  EXPECT_TRUE(is(eight_bit_tile_shape(1024, 28672, 132, true), 2, 128, 1));
}

TEST(DenseTiles, AreEachTakenOnce) {
  for (const TileOrder order :
       {TileOrder{1, 7}, TileOrder{5, 1}, TileOrder{37, 3}, TileOrder{16, 4}}) {
    std::set<std::pair<int32_t, int32_t>> seen;
    for (int32_t tile = 0; tile < order.num_tiles(); ++tile) {
      const TilePlace place = tile_place(order, tile);
      EXPECT_TRUE(place.row >= 0 && place.row < order.row_tiles);
      EXPECT_TRUE(place.column >= 0 && place.column < order.column_tiles);
      seen.insert({place.row, place.column});
    }
    EXPECT_EQ(seen.size(), static_cast<size_t>(order.num_tiles()));
  }
}

TEST(DenseTiles, HaveRingsThatFitTheirBlock) {
  for (const int groups : {1, 2}) {
    for (const int columns : kTileColumns) {
      for (const int rows : {8, 40, 64 * groups}) {
        const Ring ring = dense_ring({groups, columns}, rows);
        EXPECT_GE(ring.num_slots, 2);
        EXPECT_LE(ring.total_bytes(), 208 << 10);
        EXPECT_EQ(ring.weights_at() % kPanelAlignment, 0);
        EXPECT_EQ(ring.barriers_at() % 8, 0);
      }
    }
    for (const int columns : kEightBitTileColumns) {
      for (int blocks = 1; blocks <= most_eight_bit_blocks(groups, columns); ++blocks) {
        for (const int rows : {8, 40, 64 * groups}) {
          const Ring ring = dense_ring({groups, columns, blocks}, rows, true);
          EXPECT_GE(ring.num_slots, 2);
          EXPECT_LE(ring.total_bytes() * blocks, 208 << 10);
          EXPECT_EQ(ring.scales_at() % 16 + ring.scale_bytes % 16, 0);
        }
      }
    }
  }
}

TEST(MatmulKey, DeterministicProductsShareOneAlgorithm) {
  for (const int64_t rows : {1, 7, 300, 8192}) {
    EXPECT_EQ(algorithm_rows(rows, true), kDeterministicRows);
    EXPECT_GE(algorithm_rows(rows, false), rows);
  }
  EXPECT_EQ(algorithm_rows(9, false), 9);
  EXPECT_EQ(algorithm_rows(17, false), 32);
  EXPECT_EQ(algorithm_rows(257, false), 512);
}

}  // namespace
}  // namespace quire::cuda
