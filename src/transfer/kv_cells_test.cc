// Compares cells with a model that identifies each element by its layer, head, token and part.
#include "transfer/kv_cells.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

namespace quire {
namespace {

// What a layer keeps of a token and head, as the bytes of a row.
struct Layer {
  int32_t group = 0;
  int32_t num_heads = 1;
  int32_t num_rows = 1;
  int64_t token_bytes = 1;
  bool has_values = true;
  bool is_cut = true;  // divided by heads; else every rank keeps all of it
};

std::byte byte_of(int32_t layer, int32_t head, KvStrip::Part part, int32_t row, int64_t at,
                  int32_t token, int32_t seed) {
  const int64_t mixed = layer * 131 + head * 31 + static_cast<int32_t>(part) * 17 + row * 7 +
                        at * 3 + token * 59 + seed * 101;
  return static_cast<std::byte>(mixed ^ mixed >> 8);
}

// The host blocks of an engine: ranks and stages, each with memory of its own.
class Engine {
 public:
  Engine(const std::vector<Layer>& layers, int32_t num_stages, int32_t num_ranks,
         int32_t block_size, int32_t num_blocks)
      : layers_(layers), block_size_(block_size) {
    const auto count = static_cast<int32_t>(layers.size());
    for (int32_t stage = 0; stage < num_stages; ++stage) {
      for (int32_t rank = 0; rank < num_ranks; ++rank) {
        add_part(count * stage / num_stages, count * (stage + 1) / num_stages, rank, num_ranks,
                 num_blocks);
      }
    }
  }
  std::vector<HostBlocks> parts() {
    for (size_t i = 0; i < parts_.size(); ++i) parts_[i].data = memory_[i].data();
    return parts_;
  }

  // Calls visit(byte, wanted) for each byte of the tokens of a block, whose first token is `token`.
  template <typename Visit>
  void visit(std::span<const BlockId> blocks, int32_t token, int32_t seed, const Visit& visit) {
    for (size_t i = 0; i < parts_.size(); ++i) {
      for (const KvStrip& strip : parts_[i].strips) {
        std::byte* const base =
            memory_[i].data() +
            blocks[static_cast<size_t>(strip.group)].value * parts_[i].block_bytes +
            strip.offset_bytes;
        for (int32_t row = 0; row < strip.num_rows; ++row) {
          for (int32_t t = 0; t < block_size_; ++t) {
            for (int64_t at = 0; at < strip.token_bytes; ++at) {
              visit(base[(row * block_size_ + t) * strip.token_bytes + at],
                    byte_of(strip.layer, strip.head, strip.part, row, at, token + t, seed));
            }
          }
        }
      }
    }
  }

 private:
  void add_part(int32_t begin, int32_t end, int32_t rank, int32_t num_ranks, int32_t num_blocks) {
    HostBlocks part{.num_blocks = num_blocks};
    std::vector<int64_t> ends(8, 16);  // by group; something precedes it
    for (int32_t i = begin; i < end; ++i) {
      const Layer& layer = layers_[static_cast<size_t>(i)];
      int32_t first = 0, last = layer.num_heads;
      if (layer.is_cut && num_ranks > 1) {
        first = rank * layer.num_heads / num_ranks;
        last = std::max(first + 1, (rank + 1) * layer.num_heads / num_ranks);
      }
      for (const auto what : {KvStrip::Part::kKeys, KvStrip::Part::kValues}) {
        if (what == KvStrip::Part::kValues && !layer.has_values) continue;
        for (int32_t head = first; head < last; ++head) {
          int64_t& at = ends[static_cast<size_t>(layer.group)];
          part.strips.push_back({.layer = i,
                                 .head = head,
                                 .part = what,
                                 .group = layer.group,
                                 .offset_bytes = at,
                                 .num_rows = what == KvStrip::Part::kKeys ? layer.num_rows : 1,
                                 .token_bytes = layer.token_bytes});
          at += part.strips.back().num_rows * block_size_ * layer.token_bytes;
        }
      }
    }
    part.block_bytes = *std::max_element(ends.begin(), ends.end());
    memory_.emplace_back(static_cast<size_t>(part.block_bytes * num_blocks));
    parts_.push_back(part);
  }

  const std::vector<Layer> layers_;
  const int32_t block_size_;
  std::vector<HostBlocks> parts_;
  std::vector<std::vector<std::byte>> memory_;
};

// For any model and any two engines of it: what one engine holds of some tokens, the other holds
// after the cells went through a file, on each of its ranks, and nothing else of its blocks has
// changed.
TEST(KvCells, WhatOneEngineHoldsComesWholeToAnother) {
  constexpr int32_t kCellTokens = 4, kNumTokens = 48;
  for (uint32_t seed = 1; seed <= 120; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 rng(seed);
    const auto below = [&](int32_t n) {
      return static_cast<int32_t>(rng() % static_cast<uint32_t>(n));
    };
    const int32_t num_groups = 1 + below(2);
    std::vector<Layer> layers(static_cast<size_t>(4 + below(3)));
    for (Layer& layer : layers) {
      layer = {.group = below(num_groups),
               .num_heads = 1 << below(4),
               .num_rows = 1 + below(5),
               .token_bytes = 1 + below(9),
               .has_values = below(3) > 0,
               .is_cut = below(3) > 0};
    }
    layers[0].group = num_groups - 1;
    const int32_t sizes[] = {4, 8, 12, 16, 24, 48};
    const int32_t from_size = sizes[below(6)], to_size = sizes[below(6)];
    Engine from(layers, 1 + below(3), 1 << below(3), from_size, 2 + 2 * kNumTokens / from_size);
    Engine to(layers, 1 + below(3), 1 << below(3), to_size, 2 + 2 * kNumTokens / to_size);
    const Result<KvCells> out = KvCells::create(from.parts(), from_size / kCellTokens, kCellTokens);
    const Result<KvCells> in = KvCells::create(to.parts(), to_size / kCellTokens, kCellTokens);
    ASSERT_TRUE(out.ok() && in.ok());
    ASSERT_EQ(out->cell_bytes(), in->cell_bytes());
    ASSERT_EQ(out->num_groups(), num_groups);
    // Group g has block 1 + index * groups + g.
    const auto blocks = [&](int32_t index) {
      std::vector<BlockId> ids;
      for (int32_t g = 0; g < num_groups; ++g) ids.push_back(BlockId(1 + index * num_groups + g));
      return ids;
    };
    for (int32_t i = 0; i < kNumTokens / from_size; ++i)
      from.visit(blocks(i), i * from_size, 0, [](std::byte& byte, std::byte is) { byte = is; });
    std::vector<std::byte> file;
    for (int32_t cell = 0; cell < kNumTokens / kCellTokens; ++cell) {
      const size_t at = file.size();
      file.resize(at + static_cast<size_t>(out->cell_bytes()));
      out->gather(blocks(cell / out->block_cells()), cell % out->block_cells(), &file[at]);
    }
    for (int32_t cell = 0; cell < kNumTokens / kCellTokens; ++cell) {
      in->scatter(&file[static_cast<size_t>(cell * in->cell_bytes())],
                  blocks(cell / in->block_cells()), cell % in->block_cells());
    }
    int64_t num_wrong = 0;
    for (int32_t i = 0; i < kNumTokens / to_size; ++i) {
      to.visit(blocks(i), i * to_size, 0,
               [&](std::byte byte, std::byte wanted) { num_wrong += byte == wanted ? 0 : 1; });
    }
    ASSERT_EQ(num_wrong, 0);
    // The bytes before the strips, and block 0, are unchanged.
    for (const HostBlocks& part : to.parts()) {
      for (int32_t block = 0; block < part.num_blocks; ++block) {
        for (int64_t i = 0; i < (block == 0 ? part.block_bytes : 16); ++i)
          ASSERT_EQ(part.data[block * part.block_bytes + i], std::byte{0});
      }
    }
  }
}

TEST(KvCells, PartsThatContradictEachOtherAreRefused) {
  std::vector<std::byte> memory(256);
  const auto part = [&](int32_t num_rows) {
    return HostBlocks{memory.data(), 64, 4, {{.num_rows = num_rows, .token_bytes = 2}}};
  };
  EXPECT_TRUE(KvCells::create({part(2), part(2)}, 1, 8).ok());
  EXPECT_EQ(KvCells::create({part(2), part(1)}, 1, 8).status().code(), StatusCode::kInternal);
  EXPECT_EQ(KvCells::create({HostBlocks{memory.data(), 64, 4, {}}}, 1, 8).status().code(),
            StatusCode::kInternal);
}

}  // namespace
}  // namespace quire
