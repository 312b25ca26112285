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

// Two layers that share a block must never touch the same bytes.
TEST(KvLayout, PartsDoNotOverlap) {
  const KvLayout layout = make_kv_layout(spec_with(3, 0), 16, DType::kBF16);
  std::vector<std::byte> pool(static_cast<size_t>(4 * layout.spec.block_bytes));
  std::vector<int> owners(pool.size());
  for (int32_t part = 0; part < layout.parts_per_block; ++part) {
    const KvCacheView view = layout.part_view(pool.data(), part);
    const int64_t elements = int64_t{view.num_kv_heads} * view.head_dim * view.block_size;
    for (int64_t block = 0; block < 4; ++block) {
      for (void* base : {view.key, view.value}) {
        const int64_t offset =
            static_cast<std::byte*>(base) - pool.data() + block * view.block_stride * 2;
        for (int64_t i = 0; i < elements * 2; ++i) ++owners[static_cast<size_t>(offset + i)];
      }
    }
  }
  for (const int count : owners) ASSERT_EQ(count, 1);
}

}  // namespace
}  // namespace quire
