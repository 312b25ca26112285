#include "nn/experts/expert_placement.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace quire {
namespace {

using RankExperts = std::vector<std::vector<int32_t>>;  // by rank

int64_t sum(std::span<const int64_t> values) {
  return std::accumulate(values.begin(), values.end(), int64_t{0});
}

std::vector<int64_t> slots_of_experts(size_t num_experts, std::span<const int32_t> expert_of) {
  std::vector<int64_t> counts(num_experts, 0);
  for (const int32_t expert : expert_of) ++counts[static_cast<size_t>(expert)];
  return counts;
}

// Returns the number of slots of each expert, which is never above the number of ranks.
std::vector<int64_t> count_slots(const ExpertLoad& load) {
  const size_t num_experts = load.tokens.size();
  std::vector<int64_t> counts(num_experts, 1);
  const auto num_copies = sum(load.slots_per_rank) - static_cast<int64_t>(num_experts);
  QUIRE_CHECK(num_copies >= 0, "{} experts have {} slots too few", num_experts, -num_copies);
  for (int64_t copy = 0; copy < num_copies; ++copy) {
    size_t best = num_experts;
    for (size_t i = 0; i < num_experts; ++i) {
      if (counts[i] == std::ssize(load.slots_per_rank)) continue;
      if (best == num_experts || load.tokens[i] * counts[best] > load.tokens[best] * counts[i])
        best = i;
    }
    QUIRE_CHECK(best < num_experts, "{} copies are more than ranks have use for", num_copies);
    ++counts[best];
  }
  return counts;
}

bool contains(const std::vector<int32_t>& experts, int32_t expert) {
  return std::find(experts.begin(), experts.end(), expert) != experts.end();
}

// Assigns slots to ranks, those with the most tokens first. Two slots of one expert can end up on
// the same rank if that has fewer tokens than the others, which does no harm: one slot alone would
// bring it the same tokens.
RankExperts pack(const ExpertLoad& load, const std::vector<int64_t>& counts) {
  const auto tokens_of = [&](int32_t expert) {
    const auto at = static_cast<size_t>(expert);
    return static_cast<double>(load.tokens[at]) / static_cast<double>(counts[at]);
  };
  std::vector<int32_t> slots;
  for (size_t i = 0; i < counts.size(); ++i)
    slots.insert(slots.end(), static_cast<size_t>(counts[i]), static_cast<int32_t>(i));
  std::stable_sort(slots.begin(), slots.end(),
                   [&](int32_t a, int32_t b) { return tokens_of(a) > tokens_of(b); });
  RankExperts experts(load.slots_per_rank.size());
  std::vector<double> tokens(experts.size(), 0.0);
  for (const int32_t expert : slots) {
    size_t best = experts.size();
    for (size_t rank = 0; rank < experts.size(); ++rank) {
      if (std::ssize(experts[rank]) == load.slots_per_rank[rank]) continue;
      const auto key = [&](size_t of) {
        return std::pair(tokens[of], contains(experts[of], expert));
      };
      if (best == experts.size() || key(rank) < key(best)) best = rank;
    }
    experts[best].push_back(expert);
    tokens[best] += tokens_of(expert);
  }
  return experts;
}

// Returns how many of `experts` are in the slots.
int64_t num_held(const std::vector<int32_t>& experts, std::span<const int32_t> slots) {
  return std::count_if(slots.begin(), slots.end(),
                       [&](int32_t expert) { return contains(experts, expert); });
}

// Assigns sets of experts to ranks with the same number of slots, preferring those that already
// have most of a set.
RankExperts match(const RankExperts& sets, const std::vector<std::span<const int32_t>>& held) {
  struct Pair {
    int64_t num_held;
    size_t rank, set;
  };
  std::vector<Pair> pairs;
  for (size_t rank = 0; rank < held.size(); ++rank) {
    for (size_t set = 0; set < sets.size(); ++set) {
      if (sets[set].size() == held[rank].size())
        pairs.push_back({num_held(sets[set], held[rank]), rank, set});
    }
  }
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Pair& a, const Pair& b) { return a.num_held > b.num_held; });
  RankExperts by_rank(held.size());
  std::vector<bool> has_set(held.size()), is_taken(sets.size());
  for (const Pair& pair : pairs) {
    if (has_set[pair.rank] || is_taken[pair.set]) continue;
    has_set[pair.rank] = is_taken[pair.set] = true;
    by_rank[pair.rank] = sets[pair.set];
  }
  return by_rank;
}

// Fills the slots of a rank with `experts`, and leaves those that the rank holds already where they
// are.
void fill(std::vector<int32_t> experts, std::span<const int32_t> held, std::span<int32_t> slots) {
  std::vector<size_t> free;
  for (size_t i = 0; i < held.size(); ++i) {
    const auto kept = std::find(experts.begin(), experts.end(), held[i]);
    if (kept == experts.end()) {
      free.push_back(i);
      continue;
    }
    slots[i] = held[i];
    experts.erase(kept);
  }
  std::sort(experts.begin(), experts.end());
  for (size_t i = 0; i < free.size(); ++i) slots[free[i]] = experts[i];
}

}  // namespace

std::vector<int32_t> first_placement(int64_t num_experts, int64_t num_slots) {
  std::vector<int32_t> expert_of(static_cast<size_t>(num_slots));
  for (int64_t slot = 0; slot < num_slots; ++slot)
    expert_of[static_cast<size_t>(slot)] = static_cast<int32_t>(slot % num_experts);
  return expert_of;
}

double heaviest_rank(const ExpertLoad& load, std::span<const int32_t> expert_of) {
  const std::vector<int64_t> counts = slots_of_experts(load.tokens.size(), expert_of);
  double heaviest = 0.0;
  size_t slot = 0;
  for (const int64_t num_slots : load.slots_per_rank) {
    double tokens = 0.0;
    for (int64_t i = 0; i < num_slots; ++i, ++slot) {
      const auto expert = static_cast<size_t>(expert_of[slot]);
      tokens += static_cast<double>(load.tokens[expert]) / static_cast<double>(counts[expert]);
    }
    heaviest = std::max(heaviest, tokens);
  }
  return heaviest;
}

bool is_worth_moving(double heaviest, double next) {
  // The most loaded rank must get at most this share of its current tokens.
  constexpr double kWorthMoving = 0.98;
  return heaviest > 0.0 && next <= heaviest * kWorthMoving;
}

std::vector<int32_t> place_experts(const ExpertLoad& load, std::span<const int32_t> current) {
  QUIRE_CHECK(std::ssize(current) == sum(load.slots_per_rank), "{} slots, expected {}",
              current.size(), sum(load.slots_per_rank));
  std::vector<std::span<const int32_t>> held;
  size_t first = 0;
  for (const int64_t num_slots : load.slots_per_rank) {
    held.push_back(current.subspan(first, static_cast<size_t>(num_slots)));
    first += static_cast<size_t>(num_slots);
  }
  const RankExperts by_rank = match(pack(load, count_slots(load)), held);
  std::vector<int32_t> expert_of(current.size());
  first = 0;
  for (size_t rank = 0; rank < held.size(); ++rank) {
    fill(by_rank[rank], held[rank], std::span(expert_of).subspan(first, held[rank].size()));
    first += held[rank].size();
  }
  return expert_of;
}

}  // namespace quire
