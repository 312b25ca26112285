#include "kv/kv_manager.h"

#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kv/block_views.h"
#include "kv/testing/kv_content_model.h"

namespace quire {
namespace {

using Tokens = std::vector<TokenId>;

Tokens iota(int32_t count, TokenId first = 0) {
  Tokens tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

KvGroupSpec full() { return {.kind = KvKind::kFull, .sliding_window = 0, .layers = {0}}; }
KvGroupSpec window(int32_t size) {
  return {.kind = KvKind::kSlidingWindow, .sliding_window = size, .layers = {0}};
}
KvSpec spec(int32_t block_size, std::vector<KvGroupSpec> groups = {full()}) {
  return {.block_size = block_size, .groups = std::move(groups), .block_bytes = 1};
}

// A sequence that is opened, takes what is cached, allocates and commits the rest; -1 if it does
// not fit.
struct Stay {
  KvSequenceId id{-1};
  int32_t hit = -1;
};
Stay run(KvManager& kv, uint64_t owner, const Tokens& tokens, const CacheKeys& keys = {}) {
  Stay r{.id = kv.open(RequestId(owner), keys)};
  PrefixHit hit = kv.lookup(r.id, tokens);
  const auto size = static_cast<int32_t>(tokens.size());
  if (!kv.tables().allocate(
          r.id, {.tokens = tokens, .hit = hit, .num_new_tokens = size - hit.num_tokens})) {
    kv.close(r.id);
    return {};
  }
  r.hit = hit.num_tokens;
  kv.tables().commit(r.id, tokens, size);
  return r;
}

std::vector<int32_t> table(const KvManager& kv, KvSequenceId id, int32_t group = 0) {
  std::vector<int32_t> ids;
  for (const BlockId block : kv.tables().table(id, group)) ids.push_back(block.value);
  return ids;
}

#define EXPECT_INTEGRITY(kv) \
  EXPECT_TRUE((kv).check_integrity().ok()) << (kv).check_integrity().message()

TEST(KvManager, SecondRequestSharesFullBlocksOnly) {
  KvManager kv(spec(4), 11, {});
  const Stay a = run(kv, 1, iota(10));
  EXPECT_EQ(a.hit, 0);
  const Stay b = run(kv, 2, iota(10));
  EXPECT_EQ(b.hit, 8);
  EXPECT_EQ(table(kv, a.id), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(table(kv, b.id), (std::vector<int32_t>{1, 2, 4}));
  EXPECT_EQ(kv.stats().num_free_blocks, 6);
  EXPECT_INTEGRITY(kv);
  kv.close(a.id);
  kv.close(b.id);
  EXPECT_EQ(kv.stats().num_free_blocks, 10);
  EXPECT_INTEGRITY(kv);
}

TEST(KvManager, FullyCachedPromptOfFullBlocksComputesExactlyOneToken) {
  KvManager kv(spec(4), 11, {});
  kv.close(run(kv, 1, iota(8)).id);
  kv.begin_step(0);
  const Stay b = run(kv, 2, iota(8));
  EXPECT_EQ(b.hit, 7);
  ASSERT_EQ(kv.tables().copies().size(), 1u);
  EXPECT_EQ(kv.tables().copies()[0].source, BlockId(2));
  EXPECT_EQ(table(kv, b.id), (std::vector<int32_t>{1, kv.tables().copies()[0].destination.value}));
  EXPECT_INTEGRITY(kv);
  // The source is pinned until the next step, however many blocks are taken meanwhile.
  const Stay c = run(kv, 3, iota(4 * 7, 1000));
  EXPECT_EQ(c.hit, 0);
  EXPECT_EQ(kv.stats().num_free_blocks, 0);
  for (const int32_t block : table(kv, c.id)) EXPECT_NE(block, 2);
  EXPECT_INTEGRITY(kv);
  kv.begin_step(1);
  EXPECT_EQ(kv.stats().num_free_blocks, 1);
  EXPECT_TRUE(kv.tables().copies().empty());
  EXPECT_INTEGRITY(kv);
}

TEST(KvManager, PartialHitFallsBackWhenThereIsNoBlockForTheCopy) {
  KvManager kv(spec(4), 3, {});
  kv.close(run(kv, 1, iota(8)).id);
  const KvSequenceId id = kv.open(RequestId(2), {});
  const Tokens tokens = iota(8);
  PrefixHit hit = kv.lookup(id, tokens);
  EXPECT_TRUE(hit.partial_block);
  EXPECT_FALSE(kv.tables().allocate(id, {.tokens = tokens, .hit = hit, .num_new_tokens = 1}));
  EXPECT_INTEGRITY(kv);
  hit = kv.lookup_whole_blocks(id, tokens);
  EXPECT_EQ(hit.num_tokens, 4);
  EXPECT_TRUE(kv.tables().allocate(id, {.tokens = tokens, .hit = hit, .num_new_tokens = 4}));
  EXPECT_INTEGRITY(kv);
}

TEST(KvManager, BlockSizeOneNeedsNoPartialBlock) {
  KvManager kv(spec(1), 20, {});
  kv.close(run(kv, 1, iota(5)).id);
  const Stay b = run(kv, 2, iota(5));
  EXPECT_EQ(b.hit, 4);
  EXPECT_TRUE(kv.tables().copies().empty());
  EXPECT_INTEGRITY(kv);
}

TEST(KvManager, AFailedAllocationChangesNothing) {
  KvManager kv(spec(4), 6, {});
  const Stay a = run(kv, 1, iota(12));
  const KvSequenceId id = kv.open(RequestId(2), {});
  const Tokens tokens = iota(16, 100);
  EXPECT_FALSE(kv.tables().allocate(id, {.tokens = tokens, .num_new_tokens = 16}));
  EXPECT_FALSE(
      kv.tables().allocate(id, {.tokens = tokens, .num_new_tokens = 4, .num_full_tokens = 16}));
  EXPECT_FALSE(kv.tables().allocate(
      id, {.tokens = tokens, .num_new_tokens = 4, .num_reserved_blocks = BlockCounts::all(2)}));
  EXPECT_EQ(kv.stats().num_free_blocks, 2);
  EXPECT_TRUE(kv.tables().table(id, 0).empty());
  EXPECT_TRUE(kv.tables().allocate(
      id, {.tokens = tokens, .num_new_tokens = 4, .num_reserved_blocks = BlockCounts::all(1)}));
  EXPECT_INTEGRITY(kv);
  kv.close(a.id);
}

TEST(KvManager, TheTailOfAFreedSequenceIsEvictedFirst) {
  KvManager kv(spec(4), 5, {});  // 4 blocks
  kv.close(run(kv, 1, iota(16)).id);
  EXPECT_EQ(kv.probe(iota(16), {}).num_blocks, 4);
  kv.close(run(kv, 2, iota(4, 500)).id);
  EXPECT_EQ(kv.probe(iota(16), {}).num_blocks, 3);
  EXPECT_EQ(kv.stats().num_evicted_total, 1);
  EXPECT_INTEGRITY(kv);
}

TEST(KvManager, UncachedBlocksAreReusedBeforeCachedOnesAreEvicted) {
  KvManager kv(spec(4), 5, {});
  kv.close(run(kv, 1, iota(9)).id);  // two full blocks, one partial
  kv.close(run(kv, 2, iota(8, 500)).id);
  EXPECT_EQ(kv.probe(iota(9), {}).num_blocks, 2);
  EXPECT_EQ(kv.stats().num_evicted_total, 0);
}

TEST(KvManager, LeastRecentlyUsedPrefixGoesFirst) {
  KvManager kv(spec(4), 5, {});
  kv.close(run(kv, 1, iota(8)).id);
  kv.close(run(kv, 2, iota(8, 100)).id);
  const Stay again = run(kv, 3, iota(9));  // touches the first, takes one of the second
  EXPECT_EQ(again.hit, 8);
  EXPECT_EQ(kv.probe(iota(8, 100), {}).num_blocks, 1);
  EXPECT_INTEGRITY(kv);
}

TEST(KvManager, KeysSeparateTenants) {
  KvManager kv(spec(4), 30, {});
  const Tokens tokens = iota(9);
  run(kv, 1, tokens, {.salt = "a", .adapter = ""});
  EXPECT_EQ(run(kv, 2, tokens, {.salt = "b", .adapter = ""}).hit, 0);
  EXPECT_EQ(run(kv, 3, tokens, {.salt = "", .adapter = "a"}).hit, 0);
  EXPECT_EQ(run(kv, 4, tokens).hit, 0);
  EXPECT_EQ(run(kv, 5, tokens, {.salt = "a", .adapter = ""}).hit, 8);
  EXPECT_EQ(kv.probe(tokens, {.salt = "nobody", .adapter = ""}).num_tokens, 0);
  EXPECT_INTEGRITY(kv);
}

TEST(KvManager, ABlockUnderAnotherPrefixIsNoHit) {
  KvManager kv(spec(2), 30, {});
  run(kv, 1, {1, 2, 3, 4, 9});
  EXPECT_EQ(run(kv, 2, {5, 6, 3, 4, 9}).hit, 0);
  EXPECT_EQ(run(kv, 3, {1, 2, 3, 4, 9}).hit, 4);
}

TEST(KvManager, CachingOffSharesNothing) {
  KvManager kv(spec(4), 30, {.enable_prefix_caching = false});
  run(kv, 1, iota(9));
  EXPECT_EQ(run(kv, 2, iota(9)).hit, 0);
  EXPECT_EQ(kv.stats().num_cached_blocks, 0);
}

TEST(KvManager, WindowedGroupGivesBackWhatHasLeftTheWindow) {
  KvManager kv(spec(4, {window(6)}), 40, {});
  const KvSequenceId id = kv.open(RequestId(1), {});
  Tokens tokens = iota(20);
  ASSERT_TRUE(kv.tables().allocate(id, {.tokens = tokens, .num_new_tokens = 20}));
  kv.tables().commit(id, tokens, 20);
  std::vector<BlockTableUpdate> updates;
  kv.tables().append_updates(id, 0, true, updates);
  EXPECT_EQ(updates.size(), 5u);
  tokens.push_back(20);
  ASSERT_TRUE(
      kv.tables().allocate(id, {.tokens = tokens, .num_computed_tokens = 20, .num_new_tokens = 1}));
  // Position 20 reads 15 .. 20: blocks 3, 4, 5.
  EXPECT_EQ(table(kv, id), (std::vector<int32_t>{0, 0, 0, 4, 5, 6}));
  updates.clear();
  kv.tables().append_updates(id, 7, false, updates);
  ASSERT_EQ(updates.size(), 4u);
  EXPECT_EQ(updates[0].block, kNullBlock);
  EXPECT_EQ(updates[2].logical_index, 2);
  EXPECT_EQ(updates[3].logical_index, 5);
  EXPECT_EQ(updates[3].request_index, 7);
  EXPECT_INTEGRITY(kv);
}

TEST(KvManager, WindowSmallerThanABlock) {
  KvManager kv(spec(8, {window(3)}), 40, {});
  kv.close(run(kv, 1, iota(33)).id);
  const Stay b = run(kv, 2, iota(33));
  EXPECT_EQ(b.hit, 32);
  // Position 32 reads 30 .. 32: one cached block.
  EXPECT_EQ(table(kv, b.id).size(), 5u);
  EXPECT_EQ(table(kv, b.id)[2], 0);
  EXPECT_NE(table(kv, b.id)[3], 0);
  EXPECT_INTEGRITY(kv);
}

TEST(KvManager, WindowOfOneReadsNothingCached) {
  KvManager kv(spec(4, {window(1)}), 40, {});
  const Stay b = run(kv, 2, iota(9));
  EXPECT_EQ(b.hit, 8) << "a window of one token needs no cached block at all";
  EXPECT_INTEGRITY(kv);
}

TEST(KvManager, HybridHitIsWhatAllGroupsHave) {
  KvManager kv(spec(4, {full(), window(5)}), 41, {});
  const Stay a = run(kv, 1, iota(16));
  EXPECT_EQ(kv.stats().num_usable_blocks - kv.stats().num_free_blocks, 8);
  Tokens longer = iota(17);
  // Growing frees the window's first blocks; they stay cached.
  ASSERT_TRUE(kv.tables().allocate(
      a.id, {.tokens = longer, .num_computed_tokens = 16, .num_new_tokens = 1}));
  kv.tables().commit(a.id, longer, 17);
  EXPECT_EQ(run(kv, 2, iota(9)).hit, 8);
  EXPECT_EQ(kv.probe(iota(17), {}).num_blocks, 4);
  EXPECT_INTEGRITY(kv);
}

TEST(KvManager, HybridHitShrinksToWhereTheWindowIsStillCached) {
  KvManager kv(spec(4, {full(), window(5)}), 12, {});  // 11 blocks
  const Tokens tokens = iota(16);
  const Stay a = run(kv, 1, tokens);  // 8 blocks
  kv.close(a.id);
  // Evicts the tails of both groups: full block 3 and window block 3, then full block 2.
  const Stay b = run(kv, 2, iota(12, 900));
  ASSERT_NE(b.hit, -1);
  const KvProbe probe = kv.probe(tokens, {});
  EXPECT_LT(probe.num_blocks, 4);
  EXPECT_GT(probe.num_blocks, 0);
  EXPECT_INTEGRITY(kv);
}

TEST(KvManager, ForkSharesFullBlocksAndCopiesThePartialOne) {
  KvManager kv(spec(4), 20, {});
  const Tokens prompt = iota(10);
  const Stay leader = run(kv, 1, prompt);
  const KvSequenceId child = kv.open(RequestId(2), {});
  const PrefixHit hit = kv.tables().fork_hit(leader.id, 9);
  EXPECT_EQ(hit.num_tokens, 9);
  EXPECT_TRUE(hit.partial_block);
  ASSERT_TRUE(kv.tables().allocate(child, {.tokens = prompt, .hit = hit, .num_new_tokens = 1}));
  EXPECT_EQ(table(kv, child), (std::vector<int32_t>{1, 2, 4}));
  ASSERT_EQ(kv.tables().copies().size(), 1u);
  EXPECT_EQ(kv.tables().copies()[0].source, BlockId(3));
  EXPECT_EQ(kv.tables().num_shared_tokens(child), 8);
  EXPECT_EQ(kv.tables().num_exclusive_blocks(child)[KvPool::kAttention], 1);
  kv.tables().commit(child, prompt, 10);
  EXPECT_INTEGRITY(kv);
  kv.close(leader.id);
  EXPECT_INTEGRITY(kv);
  EXPECT_EQ(kv.tables().fork_hit(child, 11).num_tokens, 0) << "not computed yet";
}

TEST(KvManager, ACopyIsForgottenWithItsSequence) {
  KvManager kv(spec(4), 20, {});
  const Tokens prompt = iota(10);
  const Stay leader = run(kv, 1, prompt);
  const KvSequenceId children[] = {kv.open(RequestId(2), {}), kv.open(RequestId(3), {})};
  for (const KvSequenceId child : children) {
    const PrefixHit hit = kv.tables().fork_hit(leader.id, 10);
    ASSERT_TRUE(kv.tables().allocate(child, {.tokens = prompt, .hit = hit}));
  }
  ASSERT_EQ(kv.tables().copies().size(), 2u);
  const BlockId kept = kv.tables().copies()[1].destination;
  kv.tables().free(children[0]);
  ASSERT_EQ(kv.tables().copies().size(), 1u);
  EXPECT_EQ(kv.tables().copies()[0].destination, kept);
  EXPECT_INTEGRITY(kv);
  kv.begin_step(0);
  EXPECT_INTEGRITY(kv);
}

TEST(KvManager, ForkIsRefusedWhenTheLeaderHasLeftTheWindow) {
  KvManager kv(spec(2, {window(3)}), 20, {});
  const Stay leader = run(kv, 1, iota(6));
  EXPECT_EQ(kv.tables().fork_hit(leader.id, 5).num_tokens, 5);
  const Tokens longer = iota(12);
  ASSERT_TRUE(kv.tables().allocate(
      leader.id, {.tokens = longer, .num_computed_tokens = 6, .num_new_tokens = 6}));
  kv.tables().commit(leader.id, longer, 12);
  ASSERT_TRUE(kv.tables().allocate(
      leader.id, {.tokens = longer, .num_computed_tokens = 12, .num_new_tokens = 1}));
  EXPECT_EQ(kv.tables().fork_hit(leader.id, 5).num_tokens, 0);
}

TEST(KvManager, HoldKeepsAHitFromEviction) {
  KvManager kv(spec(4), 6, {});
  const Tokens tokens = iota(13);
  kv.close(run(kv, 1, tokens).id);
  const KvSequenceId id = kv.open(RequestId(2), {});
  const PrefixHit hit = kv.lookup(id, tokens);
  BlockHold hold = kv.hold(id, tokens, hit);
  EXPECT_EQ(kv.stats().num_free_blocks, 2);
  EXPECT_INTEGRITY(kv);
  EXPECT_EQ(run(kv, 3, iota(12, 700)).hit, -1);
  hold.release();
  EXPECT_EQ(kv.probe(tokens, {}).num_tokens, 12);
  EXPECT_INTEGRITY(kv);
}

TEST(KvManager, SeveralHoldsEndEachByItself) {
  KvManager kv(spec(4), 8, {});
  const Tokens short_tokens = iota(5);
  const Tokens tokens = iota(13);
  kv.close(run(kv, 1, tokens).id);
  const KvSequenceId id = kv.open(RequestId(2), {});
  const KvSequenceId short_id = kv.open(RequestId(3), {});
  std::optional<BlockHold> all = kv.hold(id, tokens, kv.lookup(id, tokens));
  {
    const BlockHold first = kv.hold(short_id, short_tokens, kv.lookup(short_id, short_tokens));
    EXPECT_EQ(kv.stats().num_free_blocks, 4);
    BlockHold moved = std::move(*all);
    all.reset();
    EXPECT_EQ(kv.stats().num_free_blocks, 4) << "a hold that was moved from must let nothing go";
    EXPECT_INTEGRITY(kv);
    all = std::move(moved);
  }
  EXPECT_EQ(kv.stats().num_free_blocks, 4);
  EXPECT_INTEGRITY(kv);
  all.reset();
  EXPECT_EQ(kv.stats().num_free_blocks, 7);
  EXPECT_EQ(kv.probe(tokens, {}).num_tokens, 12);
  EXPECT_INTEGRITY(kv);
}

TEST(KvManager, DuplicateContentSurvivesTheFirstCopy) {
  KvManager kv(spec(4), 30, {});
  const Tokens tokens = iota(9);
  // Both are allocated before either is committed: two requests with one prefix in the same step.
  const KvSequenceId a = kv.open(RequestId(1), {});
  const KvSequenceId b = kv.open(RequestId(2), {});
  ASSERT_TRUE(kv.tables().allocate(a, {.tokens = tokens, .num_new_tokens = 9}));
  ASSERT_TRUE(kv.tables().allocate(b, {.tokens = tokens, .num_new_tokens = 9}));
  kv.tables().commit(a, tokens, 9);
  kv.tables().commit(b, tokens, 9);
  EXPECT_EQ(kv.stats().num_cached_blocks, 4);
  EXPECT_EQ(run(kv, 3, tokens).hit, 8);
  EXPECT_INTEGRITY(kv);
}

TEST(KvManager, ResetIsRefusedWhileBusy) {
  KvManager kv(spec(4), 30, {.enable_events = true});
  const Stay a = run(kv, 1, iota(9));
  EXPECT_EQ(kv.reset_prefix_cache().code(), StatusCode::kUnavailable);
  kv.close(a.id);
  EXPECT_TRUE(kv.reset_prefix_cache().ok());
  EXPECT_EQ(kv.probe(iota(9), {}).num_tokens, 0);
  std::vector<KvEvent> events;
  kv.drain_events(events);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_TRUE(std::holds_alternative<AllBlocksCleared>(events[2]));
  EXPECT_INTEGRITY(kv);
}

TEST(KvManager, EventsTellWhatIsCached) {
  KvManager kv(spec(4), 4, {.enable_events = true, .max_events = 4});
  kv.close(run(kv, 1, iota(8)).id);
  std::vector<KvEvent> events;
  kv.drain_events(events);
  ASSERT_EQ(events.size(), 2u);
  const auto first = std::get<BlockStored>(events[0]);
  const auto second = std::get<BlockStored>(events[1]);
  EXPECT_EQ(first.token_ids, iota(4));
  EXPECT_EQ(first.block_index, 0);
  EXPECT_EQ(second.parent, first.hash);
  kv.close(run(kv, 2, iota(12, 50)).id);  // evicts both, stores three, which is one event too many
  kv.drain_events(events);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(std::get<BlockRemoved>(events[0]).hash, second.hash) << "the tail goes first";
  EXPECT_EQ(std::get<BlockRemoved>(events[1]).hash, first.hash);
  EXPECT_EQ(kv.stats().num_lost_events, 1);
}

TEST(KvManager, ResidencyOfSampledBlocks) {
  KvManager kv(spec(4), 3, {.residency_sample_rate = 1.0});
  kv.begin_step(100);
  kv.close(run(kv, 1, iota(5)).id);
  kv.begin_step(300);
  kv.close(run(kv, 2, iota(5)).id);
  kv.begin_step(1000);
  kv.close(run(kv, 3, iota(5, 70)).id);
  std::vector<ResidencySample> samples;
  kv.drain_residency(samples);
  ASSERT_EQ(samples.size(), 1u);
  EXPECT_EQ(samples[0].lifetime_us, 900);
  EXPECT_EQ(samples[0].idle_us, 700);
  ASSERT_EQ(samples[0].num_reuse_gaps, 1);
  EXPECT_EQ(samples[0].reuse_gap_us[0], 200);
}

TEST(KvManager, SnapshotNamesStatesAndOwners) {
  KvManager kv(spec(4), 8, {});
  kv.close(run(kv, 1, iota(4, 50)).id);
  const Stay a = run(kv, 7, iota(6));
  const Stay b = run(kv, 8, iota(6));
  const std::vector<KvBlockView> views = view_blocks(kv.stores(), kv.tables(), KvPool::kAttention);
  ASSERT_EQ(views.size(), 8u);
  EXPECT_EQ(views[0].state, KvBlockState::kNull);
  EXPECT_EQ(views[1].state, KvBlockState::kCached);
  EXPECT_EQ(views[static_cast<size_t>(table(kv, a.id)[0])].state, KvBlockState::kShared);
  EXPECT_EQ(views[static_cast<size_t>(table(kv, a.id)[0])].ref_cnt, 2);
  const KvBlockView& own = views[static_cast<size_t>(table(kv, b.id)[1])];
  EXPECT_EQ(own.state, KvBlockState::kInUse);
  EXPECT_EQ(own.owner, RequestId(8));
  EXPECT_EQ(views[7].state, KvBlockState::kFree);
}

TEST(KvManager, UnusedSlotsAreCounted) {
  KvManager paged(spec(4), 41, {});
  run(paged, 1, iota(9));
  EXPECT_EQ(paged.stats().num_reserved_slots, 12);
  EXPECT_EQ(paged.stats().num_unused_slots, 3);
  KvManager contiguous(
      spec(4), 41, {.max_sequence_tokens = 64, .reservation = KvReservation::kContiguousMaxLen});
  const Stay a = run(contiguous, 1, iota(9));
  EXPECT_EQ(contiguous.stats().num_reserved_slots, 64);
  EXPECT_EQ(contiguous.stats().num_unused_slots, 55);
  EXPECT_EQ(contiguous.tables().sizing().blocks_for(3)[KvPool::kAttention], 16);
  EXPECT_EQ(run(contiguous, 2, iota(9)).hit, 0);
  EXPECT_EQ(run(contiguous, 3, iota(9)).hit, -1) << "40 blocks hold two sequences of 16, not three";
  contiguous.close(a.id);
  EXPECT_INTEGRITY(contiguous);
}

TEST(GroupPolicy, FirstNeededAndMostHeld) {
  EXPECT_EQ(first_needed_block(full(), 4, 100), 0);
  EXPECT_EQ(first_needed_block(window(6), 4, 0), 0);
  EXPECT_EQ(first_needed_block(window(6), 4, 8), 0);  // reads from 3
  EXPECT_EQ(first_needed_block(window(6), 4, 9), 1);  // reads from 4
  EXPECT_EQ(max_held_blocks(full(), 4, 100, 8), 25);
  EXPECT_EQ(max_held_blocks(window(6), 4, 100, 8), 5);
  EXPECT_EQ(max_held_blocks(window(6), 4, 9, 8), 3);
  // The bound must hold for every start and every step.
  for (int32_t c = 0; c < 60; ++c) {
    for (int32_t n = 1; n <= 8; ++n) {
      const int32_t held = (c + n + 3) / 4 - first_needed_block(window(6), 4, c);
      EXPECT_LE(held, max_held_blocks(window(6), 4, 100, 8));
    }
  }
}

}  // namespace
}  // namespace quire
