#include "exec/kv_layout.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

DecoderSpec spec_with(int num_full, int num_sliding) {
  DecoderSpec spec;
  spec.num_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 8;
  for (int i = 0; i < num_sliding; ++i)
    spec.layers.push_back({.sliding_window = 16, .rope_index = 0});
  for (int i = 0; i < num_full; ++i) spec.layers.push_back({.sliding_window = 0, .rope_index = 0});
  return spec;
}

TEST(KvLayout, OneKindIsOneGroup) {
  const KvLayout layout = make_kv_layout(spec_with(5, 0), 16, DType::kF32);
  ASSERT_EQ(layout.spec.groups.size(), 1u);
  EXPECT_EQ(layout.spec.groups[0].kind, KvKind::kFull);
  EXPECT_EQ(layout.spec.groups[0].layers.size(), 5u);
  EXPECT_EQ(layout.spec.block_bytes, 2 * 2 * 8 * 16 * 4 * 5);
}

TEST(KvLayout, HybridGroupsHaveEqualBlocksAndCoverEveryLayerOnce) {
  for (const auto& [full, sliding] : {std::pair{1, 5}, {4, 22}, {13, 13}, {12, 14}, {3, 15}}) {
    const KvLayout layout = make_kv_layout(spec_with(full, sliding), 16, DType::kBF16);
    std::vector<int> seen(static_cast<size_t>(full + sliding));
    for (const KvGroupSpec& group : layout.spec.groups) {
      EXPECT_LE(group.layers.size(), static_cast<size_t>(layout.parts_per_block));
      for (const int32_t layer : group.layers) ++seen[static_cast<size_t>(layer)];
    }
    for (const int count : seen) EXPECT_EQ(count, 1);
  }
  EXPECT_EQ(make_kv_layout(spec_with(4, 22), 16, DType::kBF16).spec.groups.size(), 7u);
  EXPECT_EQ(make_kv_layout(spec_with(13, 13), 16, DType::kBF16).spec.groups.size(), 2u);
}

// Two layers that share a block must never touch the same bytes, and leave none unused.
TEST(KvLayout, PartsDoNotOverlap) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF8E4M3, DType::kI8}) {
    const KvLayout layout = make_kv_layout(spec_with(3, 0), 16, dtype);
    std::vector<std::byte> pool(static_cast<size_t>(4 * layout.spec.block_bytes));
    std::vector<int> owners(pool.size());
    const auto own = [&](const void* base, int64_t offset, int64_t bytes) {
      offset += static_cast<const std::byte*>(base) - pool.data();
      for (int64_t i = 0; i < bytes; ++i) ++owners[static_cast<size_t>(offset + i)];
    };
    for (int32_t part = 0; part < layout.parts_per_block; ++part) {
      const KvCacheView view = layout.part_view(pool.data(), part);
      const int64_t rows = int64_t{view.num_kv_heads} * view.block_size;
      for (int64_t block = 0; block < 4; ++block) {
        for (const void* base : {view.key, view.value}) {
          own(base, block * view.block_stride * size_bytes(dtype),
              rows * view.head_dim * size_bytes(dtype));
          if (has_token_scales(dtype))
            own(base, token_scale_index(view, block, 0, 0) * 2, rows * 2);
        }
      }
    }
    for (const int count : owners) ASSERT_EQ(count, 1) << to_string(dtype);
  }
}

// What quantization saves, scales counted.
TEST(KvLayout, BytesPerToken) {
  const DecoderSpec spec = spec_with(3, 0);
  const double elements = 2.0 * 3 * static_cast<double>(spec.kv_rows());
  const double scales = 2.0 * 3 * static_cast<double>(spec.num_kv_heads);
  EXPECT_EQ(make_kv_layout(spec, 16, DType::kBF16).bytes_per_token(), elements * 2);
  EXPECT_EQ(make_kv_layout(spec, 16, DType::kF8E5M2).bytes_per_token(), elements);
  EXPECT_EQ(make_kv_layout(spec, 16, DType::kI8).bytes_per_token(), elements + scales * 2);
}

}  // namespace
}  // namespace quire
