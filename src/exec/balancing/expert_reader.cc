#include "exec/balancing/expert_reader.h"

#include <string_view>
#include <utility>

namespace quire {
namespace {

// Ignores every tensor but those of the experts that are read.
constexpr std::string_view kEverything[] = {""};

}  // namespace

Result<std::unique_ptr<ExpertReader>> ExpertReader::create(ExpertSource source, Isa isa) {
  QUIRE_ASSIGN_OR_RETURN(ThreadTeam team, ThreadTeam::create({.num_threads = 1}));
  return std::unique_ptr<ExpertReader>(new ExpertReader(std::move(source), isa, std::move(team)));
}

ExpertReader::ExpertReader(ExpertSource source, Isa isa, ThreadTeam team)
    : source_(std::move(source)), team_(std::move(team)), stream_(team_, isa), packing_(stream_) {
  source_.names.ignored = kEverything;
}

Result<std::vector<ReadExpert>> ExpertReader::read(int32_t layer, std::span<const Order> orders) {
  std::vector<ReadExpert> experts(orders.size());
  for (size_t i = 0; i < orders.size(); ++i) {
    ReadExpert& expert = experts[i];
    expert.slot = orders[i].slot;
    WeightSlots slots(source_.options);
    add_expert(slots, source_.spec, {.layer = layer, .expert = orders[i].expert}, expert.weights);
    QUIRE_ASSIGN_OR_RETURN(const LoadPlan plan,
                           resolve_checkpoint(slots.all(), source_.names, source_.quantization,
                                              source_.tensors, packing_));
    QUIRE_ASSIGN_OR_RETURN(expert.memory, Arena::create(plan.arena_bytes()));
    QUIRE_RETURN_IF_ERROR(
        load_checkpoint(plan, expert.memory, {.release_pages = source_.is_mapped, .team = &team_}));
  }
  return experts;
}

}  // namespace quire
