#include "exec/kv_layout.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

DecoderSpec spec_with(int num_full, int num_sliding) {
  DecoderSpec spec;
  LayerSpec layer{.attention = {.num_heads = 4, .num_kv_heads = 2, .head_dim = 8}, .ffn = {}};
  layer.attention.sliding_window = 16;
  spec.layers.assign(static_cast<size_t>(num_sliding), layer);
  layer.attention.sliding_window = 0;
  spec.layers.insert(spec.layers.end(), static_cast<size_t>(num_full), layer);
  return spec;
}

TEST(KvLayout, OneKindIsOneGroup) {
  const KvLayout layout = make_kv_layout(spec_with(5, 0), 16, DType::kF32);
  ASSERT_EQ(layout.spec.groups.size(), 1u);
  EXPECT_EQ(layout.spec.groups[0].kind, KvKind::kFull);
  EXPECT_EQ(layout.spec.groups[0].layers.size(), 5u);
  EXPECT_EQ(layout.spec.block_bytes, 2 * 2 * 8 * 16 * 4 * 5);
}

// Layers of one, two and four KV heads: each of four ranks has one head of every layer.
TEST(KvLayout, RanksAndStagesHaveTheGroupsOfTheWholeModel) {
  DecoderSpec spec = spec_with(6, 0);
  for (size_t i = 0; i < spec.layers.size(); ++i)
    spec.layers[i].attention.num_kv_heads = 1 << i % 3;
  const KvLayout whole = make_kv_layout(spec, 16, DType::kBF16);
  ASSERT_GT(whole.spec.groups.size(), 1u);
  const int32_t state_size = whole.spec.state.block_size;
  for (const KvPart& part :
       {KvPart{.share = {.rank = 1, .num_ranks = 4}}, KvPart{.layers = {0, 2}}}) {
    const KvLayout own = make_kv_layout(spec, 16, DType::kBF16, state_size, part);
    ASSERT_EQ(own.spec.groups.size(), whole.spec.groups.size());
    for (size_t g = 0; g < own.spec.groups.size(); ++g)
      EXPECT_EQ(own.spec.groups[g].layers, whole.spec.groups[g].layers) << g;
    EXPECT_LT(own.spec.block_bytes, whole.spec.block_bytes);
  }
}

TEST(KvLayout, HybridGroupsHaveEqualBlocksAndCoverEveryLayerOnce) {
  for (const auto& [full, sliding] : {std::pair{1, 5}, {4, 22}, {13, 13}, {12, 14}, {3, 15}}) {
    const KvLayout layout = make_kv_layout(spec_with(full, sliding), 16, DType::kBF16);
    std::vector<int> seen(static_cast<size_t>(full + sliding));
    for (const KvGroupSpec& group : layout.spec.groups) {
      for (const int32_t layer : group.layers) ++seen[static_cast<size_t>(layer)];
    }
    for (const int count : seen) EXPECT_EQ(count, 1);
  }
  EXPECT_EQ(make_kv_layout(spec_with(4, 22), 16, DType::kBF16).spec.groups.size(), 7u);
  EXPECT_EQ(make_kv_layout(spec_with(13, 13), 16, DType::kBF16).spec.groups.size(), 2u);
}

// Returns how many layers of a group use each byte of a pool of four blocks.
std::vector<int> owners_of(const KvLayout& layout, int32_t group) {
  std::vector<std::byte> pool(static_cast<size_t>(4 * layout.spec.block_bytes));
  std::vector<int> owners(pool.size());
  const auto own = [&](const void* base, int64_t offset, int64_t bytes) {
    offset += static_cast<const std::byte*>(base) - pool.data();
    for (int64_t i = 0; i < bytes; ++i) ++owners[static_cast<size_t>(offset + i)];
  };
  for (const LayerCache& cache : layout.layer_caches(pool.data())) {
    if (cache.group != group) continue;
    const KvCacheView& view = cache.view;
    const int64_t rows = int64_t{view.num_kv_heads} * view.block_size;
    for (int64_t block = 0; block < 4; ++block) {
      for (const void* base : {view.key, view.value}) {
        own(base, block * view.block_stride * size_bytes(view.dtype),
            rows * view.head_dim * size_bytes(view.dtype));
        if (has_token_scales(view.dtype))
          own(base, token_scale_index(view, block, 0, 0) * 2, rows * 2);
      }
    }
  }
  return owners;
}

// Layers that share a block never use the same bytes, and leave none unused.
TEST(KvLayout, LayersOfAGroupDoNotOverlap) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF8E4M3, DType::kI8}) {
    const KvLayout layout = make_kv_layout(spec_with(3, 0), 16, dtype);
    for (const int count : owners_of(layout, 0)) ASSERT_EQ(count, 1) << to_string(dtype);
  }
}

// Wide sliding layers beside narrow full ones with other heads, as in Gemma 4: blocks of one size
// hold more of the smaller layers.
TEST(KvLayout, LayersMayDifferInShape) {
  DecoderSpec spec = spec_with(4, 12);
  for (LayerSpec& layer : spec.layers) {
    if (layer.attention.sliding_window == 0) continue;
    layer.attention.num_kv_heads = 6;
    layer.attention.head_dim = 16;
  }
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF8E4M3, DType::kI8}) {
    const KvLayout layout = make_kv_layout(spec, 16, dtype);
    double bytes = 0;
    for (size_t g = 0; g < layout.spec.groups.size(); ++g) {
      for (const int count : owners_of(layout, static_cast<int32_t>(g))) {
        ASSERT_LE(count, 1) << to_string(dtype);
        bytes += count;
      }
    }
    std::vector<int32_t> num_kv_heads;
    for (const KvLayerPlace& place : layout.layers) num_kv_heads.push_back(place.num_kv_heads);
    EXPECT_EQ(num_kv_heads, (std::vector<int32_t>{6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6,  //
                                                  2, 2, 2, 2}));
    EXPECT_EQ(layout.layers.back().first_scale, 12 * 6 + 3 * 2);
    // The padding is less than a tenth of the bytes of the layers.
    EXPECT_LE(layout.bytes_per_token() * 16 * 4, 1.1 * bytes) << to_string(dtype);
  }
}

// Index keys lie behind the latents of the layers that have an indexer, token by token.
TEST(KvLayout, IndexKeysLieBehindLatents) {
  DecoderSpec spec = spec_with(2, 0);
  for (LayerSpec& layer : spec.layers) {
    layer.attention.num_kv_heads = 1;
    layer.attention.head_dim = 20;
    layer.attention.latent = {.rank = 16, .rope_dim = 4};
    layer.attention.index = {.top_k = 8};
  }
  spec.layers[0].attention.index.num_heads = 3;
  spec.layers[0].attention.index.head_dim = 6;
  KvLayout layout = make_kv_layout(spec, 16, DType::kBF16);
  std::vector<std::byte> pool(static_cast<size_t>(layout.spec.block_bytes));
  const std::vector<LayerCache> caches = layout.layer_caches(pool.data());
  const auto* latents = static_cast<const std::byte*>(caches[0].view.key);
  EXPECT_EQ(static_cast<const std::byte*>(caches[0].index.key), latents + 16 * 20 * 2);
  EXPECT_EQ(caches[0].index.head_dim, 6);
  EXPECT_EQ(caches[0].index.block_stride, caches[0].view.block_stride);
  EXPECT_EQ(caches[0].index.order, KvOrder::kTokenMajor);
  EXPECT_EQ(caches[1].view.order, KvOrder::kTokenMajor);
  EXPECT_EQ(caches[1].index.key, nullptr);
  EXPECT_GE(layout.spec.block_bytes, 16 * (20 + 6) * 2);
}

TEST(KvLayout, BytesPerToken) {
  const DecoderSpec spec = spec_with(3, 0);
  const double elements = 2.0 * 3 * 2 * 8;
  const double scales = 2.0 * 3 * 2;
  EXPECT_EQ(make_kv_layout(spec, 16, DType::kBF16).bytes_per_token(), elements * 2);
  EXPECT_EQ(make_kv_layout(spec, 16, DType::kF8E5M2).bytes_per_token(), elements);
  EXPECT_EQ(make_kv_layout(spec, 16, DType::kI8).bytes_per_token(), elements + scales * 2);
}

// A layer that reads the keys and values of another layer takes no memory and has that layer's
// place.
TEST(KvLayout, LayersShareKeysAndValues) {
  DecoderSpec spec = spec_with(4, 0);
  const double alone = make_kv_layout(spec, 16, DType::kBF16).bytes_per_token();
  spec.layers[2].attention.kv_layer = 0;
  spec.layers[3].attention.kv_layer = 1;
  const KvLayout layout = make_kv_layout(spec, 16, DType::kBF16);
  EXPECT_EQ(layout.bytes_per_token(), alone / 2);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(layout.layers[i + 2].group, layout.layers[i].group);
    EXPECT_EQ(layout.layers[i + 2].offset_bytes, layout.layers[i].offset_bytes);
    EXPECT_EQ(layout.layers[i + 2].first_scale, layout.layers[i].first_scale);
  }
  EXPECT_NE(layout.layers[0].offset_bytes, layout.layers[1].offset_bytes);
}

}  // namespace
}  // namespace quire
