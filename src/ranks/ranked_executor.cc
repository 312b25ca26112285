#include "ranks/ranked_executor.h"

#include <algorithm>
#include <utility>

#include "base/threads/cpu_topology.h"
#include "exec/dummy_step.h"
#include "ranks/parted_adapter.h"
#include "ranks/stage_memory.h"

namespace quire {
namespace {

// Returns one rank's options, given those of the whole.
ModelRunnerOptions options_of(const ModelRunnerOptions& whole, int rank, int num_ranks) {
  ModelRunnerOptions options = part_of_machine(whole, rank, num_ranks);
  options.share.rank = rank;
  options.share.num_ranks = num_ranks;
  if (whole.kv_cache_memory_bytes)
    options.kv_cache_memory_bytes = *whole.kv_cache_memory_bytes / num_ranks;
  if (rank > 0) {
    options.on_progress = {};
    options.on_logits = {};
    options.expert_balance.on_change = {};
  }
  return options;
}

}  // namespace

Result<std::unique_ptr<RankedExecutor>> RankedExecutor::create(ModelRunnerOptions options,
                                                               int num_ranks) {
  if (num_ranks < 1 || num_ranks > RankGroup::kMaxRanks) {
    return invalid_argument("--tensor-parallel-size: expected a number in [1, {}], got {}",
                            RankGroup::kMaxRanks, num_ranks);
  }
  QUIRE_ASSIGN_OR_RETURN(const ModelPlan plan,
                         ModelRunner::plan_only(options_of(options, 0, num_ranks)));
  std::unique_ptr<RankedExecutor> executor(new RankedExecutor(num_ranks));
  QUIRE_RETURN_IF_ERROR(executor->make_runners(plan.shared_bytes, [&](int rank, RankGroup* group) {
    ModelRunnerOptions of_rank = options_of(options, rank, num_ranks);
    of_rank.group = group;
    return ModelRunner::create(std::move(of_rank));
  }));
  return executor;
}

Result<std::unique_ptr<RankedExecutor>> RankedExecutor::create_beside(
    const RankedExecutor& first, const std::vector<int>& cpus) {
  std::unique_ptr<RankedExecutor> executor(new RankedExecutor(first.num_ranks()));
  QUIRE_RETURN_IF_ERROR(executor->make_runners(
      first.runners_.front()->plan().shared_bytes, [&](int rank, RankGroup* group) {
        return ModelRunner::create_beside(*first.runners_[static_cast<size_t>(rank)],
                                          cpus_of_part(cpus, rank, first.num_ranks()), group);
      }));
  return executor;
}

Status RankedExecutor::make_runners(
    int64_t shared_bytes,
    const std::function<Result<std::unique_ptr<ModelRunner>>(int rank, RankGroup* group)>& make) {
  const int num_ranks = threads_.size();
  QUIRE_ASSIGN_OR_RETURN(groups_, SharedRanks::create(num_ranks, {.memory_bytes = shared_bytes}));
  runners_.resize(static_cast<size_t>(num_ranks));
  QUIRE_RETURN_IF_ERROR(threads_.run([&](int rank) -> Status {
    const auto at = static_cast<size_t>(rank);
    QUIRE_ASSIGN_OR_RETURN(runners_[at], make(rank, groups_[at].get()));
    return {};
  }));
  add_up_plans();
  return {};
}

void RankedExecutor::add_up_plans() {
  plan_ = runners_.front()->plan();
  MemoryPlan& sum = plan_.memory;
  for (size_t rank = 1; rank < runners_.size(); ++rank) sum.add(runners_[rank]->plan().memory);
  const KvSpec& kv = plan_.kv.spec;
  plan_.spec = plan_.whole;
  plan_.kv = make_kv_layout(plan_.whole, kv.block_size, plan_.kv_dtype, kv.state.block_size);
  sum.kv_spec = plan_.kv.spec;
}

// Ranks with more heads hold fewer blocks in the same bytes. Returns the fewest blocks of any rank,
// in bytes of the first rank's blocks.
int64_t RankedExecutor::available_kv_bytes() const {
  const int64_t block_bytes = std::max<int64_t>(runners_.front()->kv_spec().block_bytes, 1);
  int64_t bytes = runners_.front()->available_kv_bytes();
  for (const auto& runner : runners_) {
    const int64_t blocks =
        runner->available_kv_bytes() / std::max<int64_t>(runner->kv_spec().block_bytes, 1);
    bytes = std::min(bytes, blocks * block_bytes);
  }
  return bytes;
}

KvHostMemory RankedExecutor::host_memory() {
  KvHostMemory memory;
  for (const auto& runner : runners_) memory.add(runner->host_memory());
  return memory;
}

Status RankedExecutor::initialize(const KvPlan& plan) {
  kv_plan_ = plan;
  return threads_.run(
      [&](int rank) { return runners_[static_cast<size_t>(rank)]->initialize(plan); });
}

Status RankedExecutor::warm_up() { return execute_dummy(*this, plan_.limits, kv_plan_); }

Result<StepResult> RankedExecutor::execute(const StepPlan& plan, const Hidden& hidden) {
  const bool differs = has_adapters(plan);
  QUIRE_RETURN_IF_ERROR(threads_.run([&](int rank) -> Status {
    ModelRunner& runner = *runners_[static_cast<size_t>(rank)];
    if (hidden.in != nullptr) std::copy_n(hidden.in, hidden.count, runner.hidden());
    Result<StepResult> result = differs
                                    ? runner.execute(with_parts(plan, static_cast<size_t>(rank)))
                                    : runner.execute(plan);
    if (!result.ok()) return result.status();
    if (rank == 0) {
      if (hidden.out != nullptr) std::copy_n(runner.hidden(), hidden.count, hidden.out);
      first_result_ = std::move(*result);
    } else {
      runners_[static_cast<size_t>(rank)]->recycle(std::move(*result));
    }
    return {};
  }));
  for (size_t rank = 1; rank < runners_.size(); ++rank) runners_[rank]->follow(first_result_);
  return std::move(first_result_);
}

void RankedExecutor::follow(const StepResult& first) {
  for (const auto& runner : runners_) runner->follow(first);
}

Result<std::shared_ptr<const Adapter>> RankedExecutor::load_adapter(const std::string& name,
                                                                    const std::string& path) const {
  auto adapter = std::make_shared<PartedAdapter>();
  for (const auto& runner : runners_) {
    QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<const Adapter> part, runner->load_adapter(name, path));
    QUIRE_RETURN_IF_ERROR(adapter->add(std::move(part), path));
  }
  return std::shared_ptr<const Adapter>(std::move(adapter));
}

void RankedExecutor::discard_kv() {
  for (const auto& runner : runners_) runner->discard_kv();
}

}  // namespace quire
