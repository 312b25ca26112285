// Compares the lists of the cut, which say which requests share the reading of splits, with block
// tables.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <random>

#include "kernels/cuda/attention/attention_kernels.h"
#include "kernels/cuda/test/test_device.h"

namespace quire::cuda {
namespace {

constexpr int32_t kSplit = kDeterministicSplit;

// Block tables of requests whose contexts branch off each other. Each block that is not shared has
// a number of its own.
struct SharedTables {
  int32_t block_size = 16;
  int64_t max_blocks = 0;
  std::vector<int32_t> query_start_loc{0};
  std::vector<int32_t> seq_lens;
  std::vector<int32_t> blocks;
  int32_t next_block = 1;

  explicit SharedTables(int32_t max_len, int32_t block_size_of = 16)
      : block_size(block_size_of), max_blocks((max_len + block_size_of - 1) / block_size_of) {}

  int32_t num_reqs() const { return static_cast<int32_t>(seq_lens.size()); }
  int32_t& block(int32_t r, int64_t i) { return blocks[static_cast<size_t>(r * max_blocks + i)]; }
  // Adds a request that shares the first `num_shared` positions, rounded down to blocks, with
  // `parent`.
  void add(int32_t query_len, int32_t seq_len, int32_t parent = -1, int32_t num_shared = 0) {
    const int32_t r = num_reqs();
    query_start_loc.push_back(query_start_loc.back() + query_len);
    seq_lens.push_back(seq_len);
    blocks.resize(static_cast<size_t>((r + 1) * max_blocks));
    for (int64_t i = 0; i < max_blocks; ++i) {
      const bool is_shared = parent >= 0 && (i + 1) * block_size <= num_shared;
      block(r, i) = is_shared ? block(parent, i) : next_block++;
    }
  }
};

// The lists of a cut, on the host.
struct HostCut {
  std::vector<int32_t> words;
  CutLists lists{};
  AttentionCut cut{};
};

class GpuAttentionSharing : public gpu_test::GpuTest {
 protected:
  HostCut cut(const SharedTables& tables, AttentionCut shape) {
    AttentionArgs args;
    args.cut = shape;
    args.block_shift = std::countr_zero(static_cast<uint32_t>(tables.block_size));
    args.query_start_loc = upload(tables.query_start_loc);
    args.seq_lens = upload(tables.seq_lens);
    args.block_table = upload(tables.blocks);
    args.max_blocks = tables.max_blocks;
    args.num_reqs = tables.num_reqs();
    const int64_t bytes = attention_cut_bytes(args.num_reqs);
    void* const memory = poisoned(bytes);
    args.lists = cut_lists(memory, args.num_reqs);
    launch_attention_cut(device_->stream(), args);
    HostCut host{.words = download<int32_t>(memory, bytes / 4), .cut = shape};
    host.lists = cut_lists(host.words.data(), args.num_reqs);
    return host;
  }

  // Checks that every split of every decoding request is read once, by an item of its own or by
  // that of a pack whose requests have the same blocks there.
  void expect_right(SharedTables& tables, const HostCut& host);
};

void GpuAttentionSharing::expect_right(SharedTables& tables, const HostCut& host) {
  const CutLists& lists = host.lists;
  const int32_t num_reqs = tables.num_reqs();
  const int32_t num_items = lists.decode_items[0];
  const int32_t num_packs = num_items > 0 ? *lists.num_packs : 0;
  std::vector<SplitRange> in_pack(static_cast<size_t>(num_reqs));
  for (int32_t pack = 0; pack < num_packs; ++pack) {
    const int32_t* const first = lists.pack_requests + lists.pack_begins[pack];
    const int32_t size = lists.pack_begins[pack + 1] - lists.pack_begins[pack];
    ASSERT_GE(size, 2);
    ASSERT_LE(size * host.cut.group, host.cut.pack_rows);
    const SplitRange splits = lists.packed[*first];
    ASSERT_EQ(lists.pack_items[pack + 1] - lists.pack_items[pack], splits.count());
    for (int32_t i = 0; i < size; ++i) {
      const int32_t r = first[i];
      ASSERT_EQ(tables.query_start_loc[r + 1] - tables.query_start_loc[r], 1);
      ASSERT_EQ(in_pack[static_cast<size_t>(r)].count(), 0) << "in two packs";
      in_pack[static_cast<size_t>(r)] = splits;
      const SplitRange whole = whole_splits(host.cut, tables.seq_lens[r]);
      ASSERT_GE(splits.begin, whole.begin);
      ASSERT_LE(splits.end, whole.end);
      for (int64_t at = int64_t{splits.begin} * kSplit; at < int64_t{splits.end} * kSplit;
           at += tables.block_size) {
        const int64_t block = at / tables.block_size;
        ASSERT_EQ(tables.block(r, block), tables.block(*first, block));
      }
    }
  }
  ASSERT_EQ(num_packs > 0 ? lists.pack_items[num_packs] : 0, num_items);
  for (int32_t r = 0; r < num_reqs; ++r) {
    const RequestCut request = cut_request(
        host.cut, tables.query_start_loc[r + 1] - tables.query_start_loc[r], tables.seq_lens[r]);
    const bool decodes = request.may_decode;  // all partial sums fit
    const int32_t taken = in_pack[static_cast<size_t>(r)].count();
    if (num_items > 0) {
      ASSERT_EQ(lists.packed[r].count(), taken);
    }
    ASSERT_EQ(lists.decode_items[r + 1] - lists.decode_items[r],
              decodes ? request.decode_items() - taken : 0);
  }
}

AttentionCut sharing_cut(int32_t group, int32_t window = 0, bool is_chunk = false) {
  return {.group = group,
          .sliding_window = window,
          .window_is_chunk = is_chunk,
          .split_size = kSplit,
          .max_partial_rows = 1 << 20,
          .pack_rows = 32};
}

// Six requests share two splits of three, two of them share a third split, and one request shares
// none.
TEST_F(GpuAttentionSharing, PacksTakeSharedSplits) {
  SharedTables tables(2600);
  tables.add(1, 1100);
  for (int i = 0; i < 5; ++i) tables.add(1, 1100 + 90 * i, 0, 1040);
  tables.add(1, 1400);
  const HostCut four = cut(tables, sharing_cut(8));
  expect_right(tables, four);
  EXPECT_EQ(*four.lists.num_packs, 2);  // of four and of two
  EXPECT_EQ(four.lists.decode_items[0], 4);
  EXPECT_EQ(four.lists.decode_items[7], 4 + 6 * 1 + 3);
  const HostCut all = cut(tables, sharing_cut(4));
  expect_right(tables, all);
  EXPECT_EQ(all.lists.decode_items[0], 2);
  // A pack that would have a single request is left out.
  SharedTables five(2600);
  five.add(1, 1100);
  for (int i = 0; i < 4; ++i) five.add(1, 1100, 0, 1040);
  const HostCut rest = cut(five, sharing_cut(8));
  expect_right(five, rest);
  EXPECT_EQ(*rest.lists.num_packs, 1);
  EXPECT_EQ(rest.lists.packed[4].count(), 0);
}

// If requests stop sharing inside a split, or differ in one of its blocks, that split is not
// shared.
TEST_F(GpuAttentionSharing, SplitsThatDifferInOneBlockAreNotShared) {
  SharedTables tables(1200);
  tables.add(1, 1100);
  tables.add(1, 1100, 0, 511);
  tables.add(1, 1100, 0, 1024);
  tables.block(2, 17) = tables.next_block++;
  const HostCut none = cut(tables, sharing_cut(2));
  expect_right(tables, none);
  EXPECT_EQ(none.lists.decode_items[0], 0);
  // The split with a request's own token is never shared, whatever its block table says.
  SharedTables last(1200);
  last.add(1, 512);
  last.add(1, 512, 0, 512);
  EXPECT_EQ(cut(last, sharing_cut(2)).lists.decode_items[0], 0);
}

// If a class of many saves little and one of two saves more, requests choose the larger saving.
TEST_F(GpuAttentionSharing, RequestsTakeTheLevelThatSavesMost) {
  SharedTables tables(6000);
  tables.add(1, 5900);
  for (int i = 0; i < 3; ++i) tables.add(1, 5900, 0, 512);
  tables.add(1, 5900, 3, 5632);  // eleven splits with request 3, one with all
  const HostCut host = cut(tables, sharing_cut(4));
  expect_right(tables, host);
  EXPECT_EQ(*host.lists.num_packs, 2);
  EXPECT_EQ(host.lists.packed[4].count(), 11);
  EXPECT_EQ(host.lists.packed[0].count(), 1);
}

TEST_F(GpuAttentionSharing, RandomTreesAreCutRight) {
  std::mt19937 random(7);
  const auto below = [&](int32_t n) { return static_cast<int32_t>(random() % n); };
  int32_t num_packs = 0;
  for (int round = 0; round < 60; ++round) {
    const int32_t block_size = 8 << below(4);
    const int32_t num_reqs = round % 20 == 0 ? 300 + 900 * (round / 20 % 2) : 2 + below(40);
    SharedTables tables(2100, block_size);
    for (int32_t r = 0; r < num_reqs; ++r) {
      const int32_t query_len = below(8) == 0 ? below(3) * 20 : 1;
      const int32_t seq_len = query_len == 0 ? 0 : std::max(query_len, 1 + below(2100));
      const int32_t parent = r > 0 && below(5) > 0 ? below(std::min(r, 4)) : -1;
      tables.add(query_len, seq_len, parent, 1 + below(2100));
      if (below(10) == 0) tables.block(r, below(static_cast<int32_t>(tables.max_blocks))) = 7;
    }
    const int32_t window = below(3) == 0 ? 1 + below(1800) : 0;
    const HostCut host = cut(tables, sharing_cut(1 << below(5), window, below(2) == 0 && window));
    ASSERT_NO_FATAL_FAILURE(expect_right(tables, host)) << "round " << round;
    if (host.lists.decode_items[0] > 0) num_packs += *host.lists.num_packs;
  }
  EXPECT_GT(num_packs, 100);
}

}  // namespace
}  // namespace quire::cuda
