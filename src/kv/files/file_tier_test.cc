// Tests the file tier through KvManager, with a disk that is a map in memory: results come late and
// in any order, some are failures, and all data that is read is compared with what the tokens say.
#include "kv/files/file_tier.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <map>
#include <random>

#include "kv/kv_manager.h"

namespace quire {
namespace {

constexpr int32_t kCellTokens = 2;
constexpr int32_t kNumBlocks = 16;
constexpr int32_t kNumHostBlocks = 12;
constexpr int32_t kNumHostStates = 6;

using Tokens = std::vector<TokenId>;

// The data of a cell or a state in this test: everything that it depends on.
struct Kv {
  Tokens prefix;
  std::string salt;
  int32_t group = -1;
  friend bool operator==(const Kv&, const Kv&) = default;
};
// The data of each cell of a block; a state has one.
using Block = std::vector<Kv>;
using Memory = std::array<std::vector<Block>, kNumKvPools>;  // by pool and block id

struct File {
  KvPrefix prefix;
  KvRun run;
  std::vector<Kv> cells;  // [cells of the run][groups]
};
using Disk = std::map<std::string, File>;

// Does its work when the test says so; `fails` chooses the faults.
class FakeFiles final : public KvFiles {
 public:
  FakeFiles(Disk& disk, Memory& host, const KvSpec& spec) : disk_(disk), host_(host), spec_(spec) {
    for (const auto& [name, file] : disk) {
      events_.push_back({.kind = KvFileEvent::Kind::kFound, .run = file.run});
    }
  }
  void store(KvStoreJob job) override { stores_.push_back(std::move(job)); }
  void load(KvLoadJob job) override { loads_.push_back(std::move(job)); }
  void remove(std::string file) override { disk_.erase(file); }
  std::string file_set() const override { return ""; }
  Status check_file_set(const std::string&) const override { return {}; }
  Status look_for(std::span<const std::string>) override { return unimplemented("not tested"); }
  void poll(std::vector<KvFileEvent>& out) override {
    for (KvFileEvent& event : events_) out.push_back(std::move(event));
    events_.clear();
  }
  int64_t file_bytes(KvPool, int32_t num_cells, int32_t) const override { return num_cells; }

  bool has_work() const { return !stores_.empty() || !loads_.empty(); }
  void store_one(const Status& fault) {
    if (stores_.empty()) return;
    KvStoreJob job = std::move(stores_.front());
    stores_.pop_front();
    KvFileEvent event{.kind = KvFileEvent::Kind::kStored, .id = job.id, .status = fault};
    if (fault.ok()) {
      event.run = job.run;
      event.run.file = fmt::format("{}-{}-{}", job.run.hashes.back().low,
                                   job.run.hashes.back().high, job.run.first_cell);
      event.run.num_bytes = job.run.num_cells();
      File file{.prefix = job.prefix, .run = event.run, .cells = {}};
      for (int32_t i = 0; i < job.run.num_cells(); ++i) {
        for (int32_t g = 0; g < spec_.num_groups(job.run.pool); ++g)
          file.cells.push_back(cell(job.run.pool, job.host_blocks, i, g));
      }
      EXPECT_EQ(std::ssize(job.host_blocks) * block_cells(job.run.pool), std::ssize(file.cells));
      disk_[event.run.file] = std::move(file);
    }
    events_.push_back(std::move(event));
  }
  void load_one(size_t index, const Status& fault) {
    if (loads_.empty()) return;
    const auto it = loads_.begin() + static_cast<std::ptrdiff_t>(index % loads_.size());
    const KvLoadJob job = std::move(*it);
    loads_.erase(it);
    KvFileEvent event{.kind = KvFileEvent::Kind::kLoaded, .id = job.id, .status = fault};
    event.run.file = job.sources[index % job.sources.size()].file;
    for (const KvSource& source : job.sources) {
      if (!event.status.ok()) break;
      event.status = read(job, source);
      if (!event.status.ok()) event.run.file = source.file;
    }
    if (!event.status.ok()) cell(job.pool, job.host_blocks, 0, 0) = {.prefix = {-1}};
    events_.push_back(std::move(event));
  }

 private:
  int32_t block_cells(KvPool pool) const {
    return pool == KvPool::kState ? 1 : spec_.block_size / kCellTokens;
  }
  Kv& cell(KvPool pool, const std::vector<BlockId>& blocks, int32_t i, int32_t g) {
    const int32_t at = i / block_cells(pool) * spec_.num_groups(pool) + g;
    const BlockId block = blocks[static_cast<size_t>(at)];
    return host_[static_cast<size_t>(pool)][static_cast<size_t>(block.value)]
                [static_cast<size_t>(i % block_cells(pool))];
  }
  Status read(const KvLoadJob& job, const KvSource& source) {
    const auto found = disk_.find(source.file);
    if (found == disk_.end()) return not_found("gone");
    const File& file = found->second;
    const int32_t num_groups = spec_.num_groups(job.pool);
    const int32_t end = source.run_first_cell + source.first_in_run + source.count;
    EXPECT_LE(source.first_in_run + source.count, file.run.num_cells());
    EXPECT_EQ(source.run_first_cell, file.run.first_cell);
    EXPECT_TRUE(std::equal(job.prefix.tokens.begin(), job.prefix.tokens.begin() + end * kCellTokens,
                           file.prefix.tokens.begin()));
    EXPECT_EQ(file.prefix.keys, job.prefix.keys);
    for (int32_t i = source.first_in_run; i < source.first_in_run + source.count; ++i) {
      for (int32_t g = 0; g < num_groups; ++g)
        cell(job.pool, job.host_blocks, source.run_first_cell + i - job.first_cell, g) =
            file.cells[static_cast<size_t>(i * num_groups + g)];
    }
    return {};
  }

  Disk& disk_;
  Memory& host_;
  const KvSpec& spec_;
  std::deque<KvStoreJob> stores_;
  std::deque<KvLoadJob> loads_;
  std::vector<KvFileEvent> events_;
};

Memory memory_of(const KvSpec& spec, size_t num_blocks, size_t num_states) {
  const auto cells = static_cast<size_t>(spec.block_size / kCellTokens);
  return {std::vector<Block>(num_blocks, Block(cells)), std::vector<Block>(num_states, Block(1))};
}

// A small engine: sequences are opened, load, compute block by block, store and are closed.
class Machine {
 public:
  Machine(Disk& disk, const KvSpec& spec, int64_t capacity_bytes, uint32_t seed)
      : rng_(seed),
        spec_(spec),
        host_(memory_of(spec, kNumHostBlocks, kNumHostStates)),
        device_(memory_of(spec, kNumBlocks, kNumBlocks)),
        files_(disk, host_, spec_),
        kv_(spec, kNumBlocks,
            {.hash_seed = 7,
             .max_step_tokens = 8,
             .num_state_blocks = spec.uses(KvPool::kState) ? kNumBlocks : 0,
             .num_host_blocks = kNumHostBlocks,
             .num_host_state_blocks = spec.uses(KvPool::kState) ? kNumHostStates : 0,
             .files = {.files = &files_,
                       .capacity_bytes = capacity_bytes,
                       .run_blocks = 2,
                       .cell_tokens = kCellTokens}}) {}

  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(rng_); }

  // Makes a plan. Plans are executed some time later, in order, and reported as done after that.
  void plan() {
    std::vector<HostBlockCopy> copies;
    kv_.take_host_copies(++step_, copies);
    plans_.push_back({step_, copies});
  }
  void execute() {
    if (plans_.empty()) return;
    for (const HostBlockCopy& copy : plans_.front().second) {
      const auto pool = static_cast<size_t>(copy.pool);
      Block& here = device_[pool][static_cast<size_t>(copy.block.value)];
      Block& there = host_[pool][static_cast<size_t>(copy.host_block.value)];
      (copy.to_host ? there : here) = copy.to_host ? here : there;
    }
    kv_.on_step_done(plans_.front().first);
    plans_.pop_front();
  }
  void begin_step() { kv_.begin_step(now_us_ += 1000); }
  void answer(bool faulty) {
    const bool fails = faulty && pick(0, 3) == 0;
    const Status faults[] = {resource_exhausted("full"),
                             not_found("gone"),
                             {StatusCode::kDataLoss, "damaged"},
                             internal_error("short read")};
    const Status fault = fails ? faults[pick(0, 3)] : Status();
    if (pick(0, 1) == 0) {
      files_.store_one(fault);
    } else {
      files_.load_one(static_cast<size_t>(pick(0, 7)), fault);
    }
  }
  void settle() {
    for (int i = 0; i < 4 || files_.has_work() || !plans_.empty(); ++i) {
      begin_step();
      plan();
      while (!plans_.empty()) execute();
      while (files_.has_work()) answer(false);
      begin_step();
    }
  }

  // Runs a prompt to its end; returns how many tokens came from the cache.
  int32_t run(const Tokens& tokens, const std::string& salt, bool faulty) {
    const KvSequenceId sequence = kv_.open(RequestId(1), {.salt = salt, .adapter = {}});
    kv_.promote(sequence, tokens);
    for (int i = 0; kv_.load_from_files(sequence, tokens); ++i) {
      EXPECT_LT(i, 2000) << "it waits for ever";
      begin_step();
      if (pick(0, 1) == 0) plan();
      if (pick(0, 1) == 0) execute();
      if (pick(0, 1) == 0) answer(faulty);
      begin_step();
      if (pick(0, 30) == 0) {  // the client leaves
        kv_.close(sequence);
        return 0;
      }
      kv_.promote(sequence, tokens);
    }
    const PrefixHit hit = kv_.lookup_whole_blocks(sequence, tokens);
    compute(sequence, tokens, salt, hit, faulty);
    kv_.close(sequence);
    const Status status = kv_.check_integrity();
    EXPECT_TRUE(status.ok()) << status.message();
    return hit.num_tokens;
  }
  KvManager& kv() { return kv_; }

 private:
  int32_t block_size(int32_t group) const {
    return spec_.pool(spec_.groups[static_cast<size_t>(group)].pool()).block_size;
  }
  Block& device(int32_t group, BlockId block) {
    const KvPool pool = spec_.groups[static_cast<size_t>(group)].pool();
    return device_[static_cast<size_t>(pool)][static_cast<size_t>(block.value)];
  }
  // Returns the data of a full block of the sequence.
  Block block_of(const Tokens& tokens, const std::string& salt, int32_t index,
                 int32_t group) const {
    const bool is_state = spec_.groups[static_cast<size_t>(group)].kind == KvKind::kState;
    const int32_t size = block_size(group), step = is_state ? size : kCellTokens;
    Block block;
    for (int32_t end = index * size + step; end <= (index + 1) * size; end += step)
      block.push_back({{tokens.begin(), tokens.begin() + end}, salt, group});
    return block;
  }
  void compute(KvSequenceId sequence, const Tokens& tokens, const std::string& salt,
               const PrefixHit& hit, bool faulty) {
    int32_t computed = hit.num_tokens;
    PrefixHit first = hit;
    const auto end = static_cast<int32_t>(tokens.size());
    while (computed < end) {
      const int32_t count = std::min(end - computed, pick(1, 5));
      if (!kv_.tables().allocate(sequence, {.tokens = tokens,
                                            .num_computed_tokens = first.num_tokens ? 0 : computed,
                                            .hit = std::exchange(first, {}),
                                            .num_new_tokens = count}))
        return;
      plan();
      while (!plans_.empty()) execute();  // the step runs
      check(sequence, tokens, salt, computed);
      const int32_t before = computed;
      computed += count;
      for (int32_t g = 0; g < kv_.tables().sizing().num_groups(); ++g) {
        const auto table = kv_.tables().table(sequence, g);
        const int32_t size = block_size(g);
        for (int32_t i = before / size; i < computed / size; ++i) {
          const BlockId block = table[static_cast<size_t>(i)];
          if (block != kNullBlock) device(g, block) = block_of(tokens, salt, i, g);
        }
      }
      kv_.tables().commit(sequence, tokens, computed);
      kv_.store_in_files(sequence, std::span(tokens).first(static_cast<size_t>(computed)),
                         computed == end);
      begin_step();
      if (pick(0, 2) == 0) answer(faulty);
    }
  }
  // Checks that the data which the sequence is about to read is its own.
  void check(KvSequenceId sequence, const Tokens& tokens, const std::string& salt,
             int32_t computed) {
    for (int32_t g = 0; g < kv_.tables().sizing().num_groups(); ++g) {
      const auto table = kv_.tables().table(sequence, g);
      for (int32_t i = 0; i < computed / block_size(g); ++i) {
        const BlockId block = table[static_cast<size_t>(i)];
        if (block != kNullBlock) {
          EXPECT_EQ(device(g, block), block_of(tokens, salt, i, g))
              << "block " << i << " of group " << g;
        }
      }
    }
  }

  std::mt19937 rng_;
  const KvSpec spec_;
  Memory host_, device_;
  FakeFiles files_;
  KvManager kv_;
  std::deque<std::pair<uint64_t, std::vector<HostBlockCopy>>> plans_;
  uint64_t step_ = 0;
  int64_t now_us_ = 0;
};

KvSpec spec_of(int32_t num_groups, int32_t window, int32_t block_size = 2) {
  KvSpec spec{.block_size = block_size, .groups = {}, .block_bytes = 1};
  for (int32_t g = 0; g < num_groups; ++g) {
    spec.groups.push_back({.kind = g > 0 && window > 0 ? KvKind::kSlidingWindow : KvKind::kFull,
                           .sliding_window = g > 0 ? window : 0,
                           .layers = {g}});
  }
  return spec;
}

KvSpec with_states(KvSpec spec) {
  spec.state = {.block_size = 4, .block_bytes = 1};
  spec.groups.push_back({.kind = KvKind::kState,
                         .sliding_window = 0,
                         .layers = {static_cast<int32_t>(spec.groups.size())}});
  return spec;
}

TEST(FileTier, AColdStartFindsWhatTheLastProcessComputed) {
  Disk disk;
  const Tokens prompt = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  {
    Machine machine(disk, spec_of(1, 0), 100, 1);
    EXPECT_EQ(machine.run(prompt, "", false), 0);
    machine.settle();
    EXPECT_EQ(machine.kv().files()->stats().stored_blocks, 4);
  }
  Machine machine(disk, spec_of(1, 0), 100, 2);
  machine.begin_step();  // takes the events of files that are there
  EXPECT_EQ(machine.run(prompt, "another tenant", false), 0);
  EXPECT_EQ(machine.run(prompt, "", false), 8);
  const KvFileStats stats = machine.kv().files()->stats();
  EXPECT_EQ(stats.loaded_blocks, 4);
  EXPECT_EQ(stats.hit_tokens, 8);
}

// Engines with either block size read what the others wrote, and add what they lack.
TEST(FileTier, BlocksOfOtherSizesReadTheSameFiles) {
  Disk disk;
  Tokens prompt(21);
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<TokenId>(i);
  int32_t num_stored = 0;
  for (const int32_t size : {4, 6, 2, 8, 10}) {
    SCOPED_TRACE(size);
    Machine machine(disk, spec_of(1, 0, size), 100, 1);
    machine.begin_step();
    EXPECT_EQ(machine.run(prompt, "", false), num_stored / size * size);
    machine.settle();
    num_stored = std::max(num_stored, 20 / size * size);
  }
}

// A prompt continues from the last snapshot of states; what lies behind that is computed.
TEST(FileTier, StatesComeWithTheKeysBeforeThem) {
  for (const KvSpec& spec : {with_states(spec_of(1, 0)), with_states(spec_of(0, 0))}) {
    Disk disk;
    const Tokens prompt = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    {
      Machine machine(disk, spec, 100, 1);
      EXPECT_EQ(machine.run(prompt, "", false), 0);
      machine.settle();
    }
    Machine machine(disk, spec, 100, 2);
    machine.begin_step();
    EXPECT_EQ(machine.run(prompt, "another tenant", false), 0);
    EXPECT_EQ(machine.run(prompt, "", false), 8);
    std::erase_if(disk, [](const auto& file) { return file.second.run.pool == KvPool::kState; });
    Machine without(disk, spec, 100, 3);
    without.begin_step();
    EXPECT_EQ(without.run(prompt, "", false), 0);
  }
}

TEST(FileTier, WhatIsLostIsComputed) {
  Disk disk;
  const Tokens prompt = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  {
    Machine machine(disk, spec_of(1, 0), 100, 1);
    machine.run(prompt, "", false);
    machine.settle();
  }
  Machine machine(disk, spec_of(1, 0), 100, 2);
  machine.begin_step();
  disk.clear();
  EXPECT_EQ(machine.run(prompt, "", false), 0);
  EXPECT_GT(machine.kv().files()->stats().load_failures, 0);
}

TEST(FileTier, FilesKeepToTheirBytes) {
  Disk disk;
  Machine machine(disk, spec_of(1, 0), 6, 3);
  for (TokenId i = 0; i < 40; ++i) {
    Tokens prompt(8);
    for (TokenId& token : prompt) token = 100 * i + (&token - prompt.data() > 0 ? 1 : 0);
    machine.run(prompt, "", false);
    machine.settle();
    EXPECT_LE(machine.kv().files()->stats().num_bytes, 6);
    EXPECT_LE(disk.size(), 6u);
  }
  EXPECT_GT(machine.kv().files()->stats().removed_files, 0);
}

// Random prompts that share a few stems, on one disk and through restarts, with faults of every
// kind: no sequence reads another's data, none waits forever, and all blocks are free at the end.
TEST(FileTier, RandomRunsWithFaultsReadTheirOwn) {
  int64_t num_hits = 0, num_failures = 0;
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 rng(seed);
    Disk disk;
    const bool has_states = seed % 4 == 0;
    for (int restart = 0; restart < 3; ++restart) {
      const int32_t size = seed % 2 == 0 ? 2 : 2 * static_cast<int32_t>(1 + rng() % 3);
      KvSpec spec = seed % 3 == 0 ? spec_of(2, 5, size) : spec_of(seed % 3 == 1 ? 1 : 2, 0, size);
      if (has_states) spec = with_states(spec);
      Machine machine(disk, spec, static_cast<int64_t>(4 + rng() % 40), seed * 10 + 1);
      machine.begin_step();
      for (int i = 0; i < 40; ++i) {
        Tokens prompt(2 + rng() % 12);
        const auto stem = static_cast<TokenId>(rng() % 3);
        for (size_t j = 0; j < prompt.size(); ++j)
          prompt[j] =
              j < 6 ? stem * 100 + static_cast<TokenId>(j) : static_cast<TokenId>(rng() % 2);
        machine.run(prompt, rng() % 4 ? "" : "tenant", true);
        if (testing::Test::HasFailure()) return;
      }
      machine.settle();
      const KvFileStats stats = machine.kv().files()->stats();
      num_hits += stats.hit_tokens;
      num_failures += stats.load_failures + stats.store_failures;
      ASSERT_TRUE(machine.kv().stores().num_free() == machine.kv().stores().num_usable());
      ASSERT_TRUE(machine.kv().check_integrity().ok());
    }
  }
  EXPECT_GT(num_hits, 1000);
  EXPECT_GT(num_failures, 100);
}

}  // namespace
}  // namespace quire
