// Compares the arrays that a GPU builds, step after step, with those that the host would have
// filled.
#include "kernels/api/step_inputs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "kernels/cuda/test/test_device.h"

namespace quire {
namespace {

constexpr int32_t kSlots = 5;
constexpr int64_t kMaxBlocks = 9;
constexpr int64_t kMaxTokens = 64;

class GpuStepInputs : public gpu_test::GpuTest {
 protected:
  // The host's data of a request.
  struct Known {
    std::vector<std::vector<int32_t>> tables;  // [G][max_blocks]
    TokenId last_token = -1;
  };

  struct Step {
    std::vector<StepRequest> requests;
    std::vector<BlockEntry> entries;
    std::vector<TokenId> known_ids;
    int64_t num_tokens = 0;
  };

  int32_t pick(int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(rng_);
  }

  void start(int32_t block_size, int32_t num_groups) {
    const auto groups = static_cast<size_t>(num_groups);
    known_.assign(kSlots, {});
    for (Known& known : known_) known.tables.assign(groups, std::vector<int32_t>(kMaxBlocks, 77));
    const auto table = static_cast<int64_t>(groups) * kSlots * kMaxBlocks;
    p_ = {.block_size = block_size,
          .num_groups = num_groups,
          .num_slots = kSlots,
          .max_blocks = kMaxBlocks,
          .max_tokens = kMaxTokens,
          .tables = upload(std::vector<int32_t>(static_cast<size_t>(table), 77)),
          .input_ids = static_cast<TokenId*>(poisoned(kMaxTokens * 4)),
          .positions = static_cast<int32_t*>(poisoned(kMaxTokens * 4)),
          .query_start_loc = static_cast<int32_t*>(poisoned((kSlots + 1) * 4)),
          .seq_lens = static_cast<int32_t*>(poisoned(kSlots * 4)),
          .slot_mapping = static_cast<int64_t*>(poisoned(num_groups * kMaxTokens * 8)),
          .block_tables = static_cast<int32_t*>(poisoned(table * 4))};
    last_tokens_ = upload(std::vector<TokenId>(kSlots, -7));
    p_.last_tokens = last_tokens_;
  }

  Step random_step() {
    Step step;
    std::vector<int32_t> slots = {0, 1, 2, 3, 4};
    std::shuffle(slots.begin(), slots.end(), rng_);
    slots.resize(static_cast<size_t>(pick(1, kSlots)));
    for (const int32_t slot : slots) {
      StepRequest request{.slot = slot, .first_token = static_cast<int32_t>(step.num_tokens)};
      const int32_t room = static_cast<int32_t>(kMaxBlocks) * p_.block_size;
      request.num_tokens = pick(0, 2) == 0 ? pick(1, std::min(12, room)) : 1;
      request.begin = pick(0, room - request.num_tokens);
      const bool open = known_[static_cast<size_t>(slot)].last_token >= 0 && pick(0, 1) == 0;
      request.num_known = request.num_tokens - (open ? 1 : 0);
      for (int32_t i = 0; i < request.num_tokens; ++i)
        step.known_ids.push_back(i < request.num_known ? pick(0, 999) : -1);
      change_tables(slot, step);
      step.num_tokens += request.num_tokens;
      step.requests.push_back(request);
    }
    return step;
  }

  void change_tables(int32_t slot, Step& step) {
    for (int32_t group = 0; group < p_.num_groups; ++group) {
      for (int32_t i = 0; i < kMaxBlocks; ++i) {
        if (pick(0, 3) != 0) continue;
        const int32_t block = pick(0, 1000);
        known_[static_cast<size_t>(slot)]
            .tables[static_cast<size_t>(group)][static_cast<size_t>(i)] = block;
        step.entries.push_back(
            {(group * kSlots + slot) * static_cast<int32_t>(kMaxBlocks) + i, block});
      }
    }
  }

  void run(const Step& step) {
    p_.requests = upload(step.requests);
    p_.entries = step.entries.empty() ? nullptr : upload(step.entries);
    p_.known_ids = upload(step.known_ids);
    p_.num_requests = static_cast<int32_t>(step.requests.size());
    p_.num_entries = static_cast<int64_t>(step.entries.size());
    p_.num_tokens = step.num_tokens;
    p_.padded_requests = pick(p_.num_requests, kSlots);
    p_.padded_tokens = pick(static_cast<int32_t>(p_.num_tokens), kMaxTokens);
    build_step_inputs(stream(), p_);
  }

  void check(const Step& step) {
    const auto ids = download<TokenId>(p_.input_ids, p_.padded_tokens);
    const auto positions = download<int32_t>(p_.positions, p_.padded_tokens);
    const auto starts = download<int32_t>(p_.query_start_loc, p_.padded_requests + 1);
    const auto lens = download<int32_t>(p_.seq_lens, p_.padded_requests);
    const auto slots = download<int64_t>(p_.slot_mapping, p_.num_groups * kMaxTokens);
    const auto tables = download<int32_t>(p_.block_tables, p_.num_groups * kSlots * kMaxBlocks);
    EXPECT_EQ(starts[0], 0);
    for (size_t r = 0; r < lens.size(); ++r) {
      if (r >= step.requests.size()) {
        EXPECT_EQ(lens[r], 0);
        EXPECT_EQ(starts[r + 1], step.num_tokens);
        continue;
      }
      const StepRequest& request = step.requests[r];
      const Known& known = known_[static_cast<size_t>(request.slot)];
      const int32_t end = request.begin + request.num_tokens;
      EXPECT_EQ(lens[r], end);
      EXPECT_EQ(starts[r + 1], request.first_token + request.num_tokens);
      for (int32_t i = 0; i < request.num_tokens; ++i) {
        const auto row = static_cast<size_t>(request.first_token + i);
        EXPECT_EQ(ids[row], i < request.num_known ? step.known_ids[row] : known.last_token);
        EXPECT_EQ(positions[row], request.begin + i);
      }
      for (int32_t g = 0; g < p_.num_groups; ++g)
        check_group(request, g, r, slots, tables, known.tables[static_cast<size_t>(g)]);
    }
    for (auto row = static_cast<size_t>(step.num_tokens); row < ids.size(); ++row) {
      EXPECT_EQ(ids[row], 0);
      EXPECT_EQ(positions[row], 0);
      EXPECT_EQ(slots[row], -1);
    }
  }

  void check_group(const StepRequest& request, int32_t group, size_t index,
                   const std::vector<int64_t>& slots, const std::vector<int32_t>& tables,
                   const std::vector<int32_t>& table) {
    const int32_t end = request.begin + request.num_tokens;
    for (int32_t position = request.begin; position < end; ++position) {
      const int64_t row = int64_t{request.first_token} + position - request.begin;
      const int64_t block = table[static_cast<size_t>(position / p_.block_size)];
      EXPECT_EQ(slots[static_cast<size_t>(group * kMaxTokens + row)],
                block * p_.block_size + position % p_.block_size);
    }
    const size_t base = (static_cast<size_t>(group) * kSlots + index) * kMaxBlocks;
    for (int32_t i = 0; i * p_.block_size < end; ++i)
      EXPECT_EQ(tables[base + static_cast<size_t>(i)], table[static_cast<size_t>(i)]);
  }

  void sample(const Step& step) {
    std::vector<SampledToken> sampled;
    std::vector<int32_t> slots;
    for (const StepRequest& request : step.requests) {
      const TokenId token = pick(0, 5) == 0 ? -1 : pick(0, 999);  // -1: the row has failed
      const bool keeps = pick(0, 3) != 0;
      sampled.push_back({.token_id = token});
      slots.push_back(keeps ? request.slot : -1);
      if (keeps) known_[static_cast<size_t>(request.slot)].last_token = std::max(token, 0);
    }
    const auto count = static_cast<int64_t>(sampled.size());
    auto* ids = static_cast<TokenId*>(poisoned(count * 4));
    keep_tokens(stream(), {.sampled = upload(sampled),
                           .slots = upload(slots),
                           .num_rows = count,
                           .last_tokens = last_tokens_,
                           .token_ids = ids});
    const auto kept = download<TokenId>(ids, count);
    for (size_t i = 0; i < sampled.size(); ++i) EXPECT_EQ(kept[i], sampled[i].token_id);
  }

  std::mt19937 rng_{5};
  std::vector<Known> known_;
  StepInputsParams p_;
  TokenId* last_tokens_ = nullptr;
};

TEST_F(GpuStepInputs, StepAfterStepAreWhatTheHostWouldFill) {
  for (const int32_t block_size : {1, 8, 16}) {
    for (const int32_t num_groups : {1, 3}) {
      start(block_size, num_groups);
      for (int i = 0; i < 20; ++i) {
        SCOPED_TRACE(testing::Message() << block_size << " " << num_groups << " step " << i);
        const Step step = random_step();
        run(step);
        check(step);
        sample(step);
        if (HasFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace quire
