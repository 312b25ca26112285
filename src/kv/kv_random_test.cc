// Compares random operations on KvManager with a naive model: a map of token lists, and a memory
// that really holds content. A failing seed is printed; start the loop with it to repeat the run.
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

#include "kv/block_views.h"
#include "kv/kv_manager.h"
#include "kv/testing/kv_content_model.h"

namespace quire {
namespace {

using Tokens = std::vector<TokenId>;

class RandomKv {
 public:
  explicit RandomKv(uint32_t seed)
      : rng_(seed),
        spec_(random_spec()),
        num_blocks_(pick(4, 40)),
        num_state_blocks_(pick(3, 12)),
        kv_(spec_, num_blocks_, options()),
        memory_(spec_, num_blocks_, num_state_blocks_) {}

  void step() {
    if (pick(0, 3) == 0) {
      kv_.begin_step(++now_);
      num_copied_ = 0;
      memory_.begin_step();
    }
    switch (pick(0, 9)) {
      case 0:
      case 1:
      case 2:
        open_one();
        break;
      case 3:
      case 4:
      case 5:
        grow_one();
        break;
      case 6:
        close_one();
        break;
      case 7:
        free_one();
        break;
      case 8:
        fork_one();
        break;
      case 9:
        probe_one();
        break;
    }
    const Status status = kv_.check_integrity();
    ASSERT_TRUE(status.ok()) << status.message();
  }

  void finish() {
    while (!live_.empty()) close_one();
    kv_.begin_step(++now_);
    ASSERT_TRUE(kv_.stores().num_free() == kv_.stores().num_usable());
    ASSERT_TRUE(kv_.check_integrity().ok());
    ASSERT_TRUE(kv_.reset_prefix_cache().ok());
    ASSERT_EQ(kv_.stats().num_cached_blocks, 0);
    ASSERT_EQ(kv_.stats(KvPool::kState).num_cached_blocks, 0);
  }

 private:
  struct Live {
    KvSequenceId id;
    Tokens tokens;
    int32_t tenant = 0;
    int32_t computed = 0;
  };

  int32_t pick(int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(rng_);
  }

  KvSpec random_spec() {
    KvSpec spec{.block_size = pick(1, 5), .groups = {}, .block_bytes = 1};
    const int32_t num_groups = pick(1, 3);
    for (int32_t g = 0; g < num_groups; ++g) {
      const bool windowed = pick(0, 1) == 0;
      spec.groups.push_back({.kind = windowed ? KvKind::kSlidingWindow : KvKind::kFull,
                             .sliding_window = windowed ? pick(2, 11) : 0,
                             .layers = {g}});
    }
    // Layers with states, with or without attention.
    if (pick(0, 1) == 0) return spec;
    if (pick(0, 2) == 0) spec.groups.clear();
    for (int32_t i = pick(1, 2); i > 0; --i) {
      spec.groups.push_back({.kind = KvKind::kState, .layers = {num_groups + i}});
    }
    spec.state = {.block_size = spec.block_size * pick(1, 4), .block_bytes = 1};
    return spec;
  }
  KvOptions options() {
    return {.enable_prefix_caching = pick(0, 9) > 0,
            .hash_seed = rng_(),
            .max_step_tokens = pick(0, 1) * 8,
            .enable_events = true,
            .max_events = 100,
            .residency_sample_rate = 0.3,
            .max_residency_samples = 50,
            .num_state_blocks = num_state_blocks_};
  }
  static CacheKeys keys_of(int32_t tenant) {
    return tenant == 0
               ? CacheKeys{}
               : CacheKeys{.salt = std::string(1, static_cast<char>('a' + tenant)), .adapter = {}};
  }
  // Returns prompts that share a few stems, so that prefixes often match.
  Tokens random_tokens() {
    Tokens tokens(static_cast<size_t>(pick(1, 30)));
    const int32_t stem = pick(0, 2);
    const int32_t branch = pick(0, 30);
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<int32_t>(i) < branch ? stem * 100 + static_cast<int32_t>(i)
                                                   : pick(1000, 1002);
    }
    return tokens;
  }

  std::vector<std::vector<BlockId>> tables(KvSequenceId id) const {
    std::vector<std::vector<BlockId>> all;
    for (int32_t g = 0; g < kv_.tables().sizing().num_groups(); ++g) {
      const auto table = kv_.tables().table(id, g);
      all.emplace_back(table.begin(), table.end());
    }
    return all;
  }

  void do_copies() {
    for (; num_copied_ < kv_.tables().copies().size(); ++num_copied_)
      memory_.copy(kv_.tables().copies()[num_copied_]);
  }

  void close(KvSequenceId id) {
    kv_.close(id);
    forget_copies();
  }

  // A sequence that frees its blocks also forgets the copies to them; all of these were made by
  // then.
  void forget_copies() { num_copied_ = kv_.tables().copies().size(); }

  // Computes up to `n` more tokens.
  bool compute(Live& live, const PrefixHit& hit, int32_t n) {
    const int32_t start = hit.num_tokens > 0 ? hit.num_tokens : live.computed;
    const bool full_check = hit.num_tokens == 0 && live.computed == 0 && pick(0, 1) == 0;
    const AllocateArgs args{
        .tokens = live.tokens,
        .num_computed_tokens = live.computed,
        .hit = hit,
        .num_new_tokens = n,
        .num_lookahead_tokens = pick(0, 2),
        .num_full_tokens = full_check ? static_cast<int32_t>(live.tokens.size()) : 0,
        .num_reserved_blocks = BlockCounts::all(pick(0, 2))};
    if (!kv_.tables().allocate(live.id, args)) return false;
    do_copies();
    memory_.begin_step();
    EXPECT_TRUE(
        memory_.compute(live.tokens, start, start + n, tables(live.id), key_hash(live.tenant)))
        << "KV of " << live.tokens.size() << " tokens, positions " << start << " to " << start + n;
    live.computed = start + n;
    kv_.tables().commit(live.id, live.tokens, live.computed);
    return true;
  }
  static uint64_t key_hash(int32_t tenant) { return static_cast<uint64_t>(tenant) + 1; }

  void open_one() {
    if (live_.size() >= 8) return close_one();
    Live live{.id = KvSequenceId{}, .tokens = random_tokens(), .tenant = pick(0, 1)};
    live.id = kv_.open(RequestId(++last_owner_), keys_of(live.tenant));
    start(std::move(live));
  }

  void start(Live live) {
    const PrefixHit hit = kv_.lookup(live.id, live.tokens);
    const auto size = static_cast<int32_t>(live.tokens.size());
    if (kv_.options().enable_prefix_caching) {
      EXPECT_EQ(hit.num_tokens, naive_hit(live.tokens, live.tenant)) << "of " << size << " tokens";
    } else {
      EXPECT_EQ(hit.num_tokens, 0);
    }
    EXPECT_LT(hit.num_tokens, size) << "S-4";
    if (compute(live, hit, pick(1, size - hit.num_tokens))) {
      live_.push_back(std::move(live));
    } else {
      close(live.id);
    }
  }

  void grow_one() {
    if (live_.empty()) return;
    Live& live = live_[static_cast<size_t>(pick(0, static_cast<int32_t>(live_.size()) - 1))];
    auto left = static_cast<int32_t>(live.tokens.size()) - live.computed;
    if (left == 0) {
      for (int32_t i = pick(1, 6); i > 0; --i, ++left) live.tokens.push_back(pick(1000, 1001));
    }
    compute(live, {}, pick(1, left));
  }

  size_t pick_live() {
    return static_cast<size_t>(pick(0, static_cast<int32_t>(live_.size()) - 1));
  }

  void close_one() {
    if (live_.empty()) return;
    const size_t i = pick_live();
    close(live_[i].id);
    live_.erase(live_.begin() + static_cast<ptrdiff_t>(i));
  }

  // Preempts a sequence: it frees all of its blocks and starts over.
  void free_one() {
    if (live_.empty()) return;
    const size_t i = pick_live();
    Live live = std::move(live_[i]);
    live_.erase(live_.begin() + static_cast<ptrdiff_t>(i));
    kv_.tables().free(live.id);
    forget_copies();
    live.computed = 0;
    start(std::move(live));
  }

  void fork_one() {
    if (live_.empty() || live_.size() >= 8) return;
    const Live source = live_[pick_live()];
    if (source.computed == 0) return;
    const int32_t shared = pick(1, source.computed);
    const PrefixHit hit = kv_.tables().fork_hit(source.id, shared);
    if (hit.num_tokens == 0) return;
    Live child{.id = kv_.open(RequestId(++last_owner_), keys_of(source.tenant)),
               .tokens = Tokens(source.tokens.begin(), source.tokens.begin() + shared),
               .tenant = source.tenant};
    child.tokens.push_back(pick(1000, 1003));
    if (compute(child, hit, 1)) {
      live_.push_back(std::move(child));
    } else {
      close(child.id);
    }
  }

  void probe_one() {
    const Tokens tokens = random_tokens();
    const KvStats before = kv_.stats();
    const int32_t num_free_states = kv_.stats(KvPool::kState).num_free_blocks;
    const KvProbe probe = kv_.probe(tokens, keys_of(0));
    EXPECT_EQ(before.num_free_blocks, kv_.stats().num_free_blocks);
    EXPECT_EQ(kv_.stats(KvPool::kState).num_free_blocks, num_free_states);
    if (!kv_.options().enable_prefix_caching) return;
    EXPECT_EQ(probe.num_tokens, naive_whole_blocks(tokens, 0, static_cast<int32_t>(tokens.size())));
  }

  bool cached(const Tokens& tokens, int32_t tenant, size_t g, int32_t index) {
    const std::vector<KvBlockView>& views = views_[static_cast<size_t>(spec_.groups[g].pool())];
    for (size_t b = 1; b < views.size(); ++b) {
      if (views[b].registered &&
          memory_.holds(BlockId(static_cast<int32_t>(b)), tokens, index, g, key_hash(tenant))) {
        return true;
      }
    }
    return false;
  }
  int32_t block_size(size_t g) const { return spec_.pool(spec_.groups[g].pool()).block_size; }
  // Whether the cache has everything that is read to compute the token after the first `length`
  // ones.
  bool all_hold(const Tokens& tokens, int32_t tenant, int32_t length) {
    for (size_t g = 0; g < spec_.groups.size(); ++g) {
      const KvGroupSpec& group = spec_.groups[g];
      const int32_t size = block_size(g);
      if (group.kind == KvKind::kState) {
        if (length % size != 0 || !cached(tokens, tenant, g, length / size - 1)) return false;
        continue;
      }
      for (int32_t i = 0; i * size < length; ++i) {
        const bool read =
            group.kind == KvKind::kFull || (i + 1) * size > length - group.sliding_window + 1;
        if (read && !cached(tokens, tenant, g, i)) return false;
      }
    }
    return true;
  }
  bool ends_blocks(int32_t length) const {
    for (size_t g = 0; g < spec_.groups.size(); ++g) {
      if (length % block_size(g) != 0) return false;
    }
    return true;
  }
  int32_t naive_whole_blocks(const Tokens& tokens, int32_t tenant, int32_t most) {
    for (const KvPool pool : {KvPool::kAttention, KvPool::kState})
      views_[static_cast<size_t>(pool)] = view_blocks(kv_.stores(), kv_.tables(), pool);
    for (int32_t n = most; n > 0; --n) {
      if (ends_blocks(n) && all_hold(tokens, tenant, n)) return n;
    }
    return 0;
  }
  int32_t naive_hit(const Tokens& tokens, int32_t tenant) {
    const auto size = static_cast<int32_t>(tokens.size());
    const int32_t n = naive_whole_blocks(tokens, tenant, size);
    if (n < size) return n;
    if (size > 1 && all_hold(tokens, tenant, size - 1)) return size - 1;
    return naive_whole_blocks(tokens, tenant, size - 1);
  }

  std::mt19937 rng_;
  KvSpec spec_;
  int32_t num_blocks_;
  int32_t num_state_blocks_;
  KvManager kv_;
  test::KvContentModel memory_;
  std::vector<Live> live_;
  std::array<std::vector<KvBlockView>, kNumKvPools> views_;
  size_t num_copied_ = 0;
  uint64_t last_owner_ = 0;
  int64_t now_ = 0;
};

TEST(KvRandom, OperationsAgreeWithANaiveModel) {
  for (uint32_t seed = 1; seed <= 600; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomKv random(seed);
    for (int32_t i = 0; i < 300; ++i) {
      random.step();
      if (testing::Test::HasFailure()) FAIL() << "operation " << i;
    }
    random.finish();
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace quire
