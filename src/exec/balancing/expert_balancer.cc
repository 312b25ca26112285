#include "exec/balancing/expert_balancer.h"

#include <algorithm>
#include <exception>
#include <system_error>

#include "base/log.h"
#include "nn/experts/expert_placement.h"

namespace quire {
namespace {

const PackedWeight* packed(const LinearWeights& weights) {
  return weights.is_empty() ? nullptr : &weights.weight.parts.front();
}

bool is_same(const LinearWeights& a, const LinearWeights& b) {
  if (a.is_empty() || b.is_empty()) return a.is_empty() == b.is_empty();
  const WeightSpec &x = packed(a)->spec, &y = packed(b)->spec;
  return x.n == y.n && x.k == y.k && x.dtype == y.dtype && x.compute == y.compute &&
         x.quant == y.quant;
}

// Returns whether either expert can take the place of the other: the workspace of products is
// planned for these shapes.
bool is_same(const ExpertsWeights::Expert& a, const ExpertsWeights::Expert& b) {
  return is_same(a.gate, b.gate) && is_same(a.up, b.up) && is_same(a.down, b.down);
}

}  // namespace

ExpertBalancer::ExpertBalancer(const ExpertBalanceOptions& options, Parts parts)
    : options_(options), parts_(std::move(parts)) {
  options_.window_size = std::min(options_.window_size, options_.step_interval);
}

ExpertBalancer::~ExpertBalancer() {
  if (thread_.joinable()) thread_.join();
}

void ExpertBalancer::begin_step() {
  if (!changes_.empty()) advance();
  const int64_t at = num_steps_++ % options_.step_interval;
  if (at == 0 && num_steps_ > 1) place(parts_.experts.take_counts());
  if (at == options_.step_interval - options_.window_size) parts_.experts.count_tokens();
}

void ExpertBalancer::place(const std::vector<std::vector<int64_t>>& tokens) {
  if (!changes_.empty()) return;  // the last placement has not been reached yet
  double before = 0.0, after = 0.0, mean = 0.0;
  for (size_t layer = 0; layer < tokens.size(); ++layer) {
    if (tokens[layer].empty()) continue;
    std::vector<int64_t> slots_per_rank;
    RankShare share = parts_.ranks.share();
    for (share.rank = 0; share.rank < share.num_ranks; ++share.rank)
      slots_per_rank.push_back(share.expert_slots(std::ssize(tokens[layer])).size());
    const ExpertLoad load{.tokens = tokens[layer], .slots_per_rank = slots_per_rank};
    const std::vector<int32_t>& current = parts_.weights.experts(layer).expert_of;
    std::vector<int32_t> placed = place_experts(load, current);
    const double heaviest = heaviest_rank(load, current), next = heaviest_rank(load, placed);
    if (!is_worth_moving(heaviest, next)) continue;
    changes_.push_back({layer, std::move(placed)});
    before += heaviest;
    after += next;
    for (const int64_t count : tokens[layer])
      mean += static_cast<double>(count) / static_cast<double>(share.num_ranks);
  }
  if (changes_.empty()) return;
  if (parts_.ranks.share().rank == 0) {
    log_info(
        "the experts of {} layers move between ranks: the most loaded rank of a layer had {:.2f} "
        "times the mean number of tokens, and would have had {:.2f} times the mean where the "
        "experts move to",
        changes_.size(), before / mean, after / mean);
  }
  start_reading();
}

void ExpertBalancer::start_reading() {
  if (thread_.joinable()) thread_.join();
  progress_.store(kReading, std::memory_order_relaxed);
  try {
    thread_ = std::thread([this, &change = changes_.front()] { read(change); });
  } catch (const std::system_error& e) {
    log_warn("experts stay where they are: the system gave no thread to read them: {}", e.what());
    progress_.store(kFailed, std::memory_order_relaxed);
  }
}

void ExpertBalancer::read(const Change& change) {
  const ExpertsWeights& weights = parts_.weights.layer(change.layer).experts;
  const RowRange own = parts_.ranks.share().expert_slots(
      parts_.spec.layers[change.layer].ffn.experts.router.num_experts);
  std::vector<ExpertReader::Order> orders;
  for (auto slot = static_cast<size_t>(own.begin); slot < static_cast<size_t>(own.end); ++slot) {
    if (change.expert_of[slot] != weights.expert_of[slot])
      orders.push_back({slot, change.expert_of[slot]});
  }
  Status status;
  try {
    Result<std::vector<ReadExpert>> experts =
        parts_.reader->read(static_cast<int32_t>(change.layer), orders);
    status = experts.status();
    if (experts.ok()) read_ = std::move(*experts);
  } catch (const std::exception& e) {  // too little memory
    status = resource_exhausted("{}", e.what());
  }
  for (const ReadExpert& expert : read_) {
    if (is_same(expert.weights, weights.slots[expert.slot])) continue;
    status = unimplemented("experts of layer {} are stored in different types", change.layer);
  }
  if (!status.ok()) log_warn("experts stay where they are: {}", status.message());
  progress_.store(status.ok() ? kReady : kFailed, std::memory_order_release);
}

void ExpertBalancer::advance() {
  const uint8_t progress = parts_.ranks.least_of_all(progress_.load(std::memory_order_acquire));
  if (progress == kReading) return;
  if (thread_.joinable()) thread_.join();  // it is not if this rank got no thread
  if (progress == kReady) {
    apply(std::move(changes_.front()));
    changes_.pop_front();
  } else {
    changes_.clear();
  }
  read_.clear();
  if (!changes_.empty()) start_reading();
}

void ExpertBalancer::apply(Change change) {
  ExpertsWeights& weights = parts_.weights.experts(change.layer);
  for (ReadExpert& expert : read_) {
    const std::pair place(change.layer, expert.slot);
    ExpertsWeights::Expert& old = weights.slots[expert.slot];
    if (!memory_.contains(place)) {
      for (const LinearWeights* matrix : {&old.gate, &old.up, &old.down}) {
        for (const PackedWeight& part : matrix->weight.parts)
          parts_.arena.discard(part.data, packed_weight_bytes(part.spec));
      }
    }
    old = std::move(expert.weights);
    memory_[place] = std::move(expert.memory);
  }
  weights.expert_of = std::move(change.expert_of);
  parts_.experts.take_weights(change.layer);
  if (options_.on_change) options_.on_change(change.layer);
}

int64_t moving_expert_bytes(const std::vector<WeightSlot>& slots, const WeightPacking& packing) {
  std::map<int32_t, int64_t> bytes;  // by layer
  for (const WeightSlot& slot : slots) {
    if (slot.expert < 0 || slot.matrix == nullptr) continue;
    for (const PackedWeight& part : slot.matrix->parts)
      bytes[slot.layer] += Arena::padded(packing.packed_bytes(part.spec));
  }
  int64_t most = 0;
  for (const auto& [layer, of_layer] : bytes) most = std::max(most, of_layer);
  return most;
}

}  // namespace quire
