#include "ranks/ranked_executor.h"

#include <algorithm>
#include <utility>

#include "base/threads/cpu_topology.h"
#include "exec/dummy_step.h"

namespace quire {
namespace {

// One rank's part of what the whole may take.
ModelRunnerOptions options_of(const ModelRunnerOptions& whole, int rank, int num_ranks) {
  ModelRunnerOptions options = whole;
  options.share = {rank, num_ranks};
  const int threads = whole.threads > 0 ? whole.threads : default_num_threads();
  options.threads = std::max(1, threads / num_ranks);
  options.memory_utilization = whole.memory_utilization / num_ranks;
  if (whole.kv_cache_memory_bytes)
    options.kv_cache_memory_bytes = *whole.kv_cache_memory_bytes / num_ranks;
  if (rank > 0) {
    options.on_progress = {};
    options.on_logits = {};
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
  QUIRE_ASSIGN_OR_RETURN(executor->groups_,
                         SharedRanks::create(num_ranks, {.memory_bytes = plan.shared_bytes}));
  executor->runners_.resize(static_cast<size_t>(num_ranks));
  QUIRE_RETURN_IF_ERROR(executor->threads_.run([&](int rank) -> Status {
    const auto at = static_cast<size_t>(rank);
    ModelRunnerOptions of_rank = options_of(options, rank, num_ranks);
    of_rank.group = executor->groups_[at].get();
    QUIRE_ASSIGN_OR_RETURN(executor->runners_[at], ModelRunner::create(std::move(of_rank)));
    return {};
  }));
  executor->add_up_plans();
  return executor;
}

void RankedExecutor::add_up_plans() {
  plan_ = runners_.front()->plan();
  MemoryPlan& sum = plan_.memory;
  for (size_t rank = 1; rank < runners_.size(); ++rank) {
    const MemoryPlan& memory = runners_[rank]->plan().memory;
    for (int64_t MemoryPlan::*part :
         {&MemoryPlan::weights, &MemoryPlan::matrices, &MemoryPlan::activations,
          &MemoryPlan::linear_workspace, &MemoryPlan::attention_workspace, &MemoryPlan::logits,
          &MemoryPlan::batch, &MemoryPlan::kv_cache, &MemoryPlan::block_bytes,
          &MemoryPlan::budget}) {
      sum.*part += memory.*part;
    }
    sum.kv_bytes_per_token += memory.kv_bytes_per_token;
  }
  const KvSpec& kv = plan_.kv.spec;
  plan_.spec = plan_.whole;
  plan_.kv = make_kv_layout(plan_.whole, kv.block_size, plan_.kv_dtype, kv.state.block_size);
  sum.kv_spec = plan_.kv.spec;
}

// Ranks with more heads hold fewer blocks in as many bytes: the fewest blocks count, in bytes of
// the first rank's.
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

Status RankedExecutor::initialize(const KvPlan& plan) {
  kv_plan_ = plan;
  return threads_.run(
      [&](int rank) { return runners_[static_cast<size_t>(rank)]->initialize(plan); });
}

Status RankedExecutor::warm_up() { return execute_dummy(*this, plan_.limits, kv_plan_); }

Result<StepResult> RankedExecutor::execute(const StepPlan& plan) {
  QUIRE_RETURN_IF_ERROR(threads_.run([&](int rank) -> Status {
    Result<StepResult> result = runners_[static_cast<size_t>(rank)]->execute(plan);
    if (!result.ok()) return result.status();
    if (rank == 0) {
      first_result_ = std::move(*result);
    } else {
      runners_[static_cast<size_t>(rank)]->recycle(std::move(*result));
    }
    return {};
  }));
  for (size_t rank = 1; rank < runners_.size(); ++rank) runners_[rank]->follow(first_result_);
  return std::move(first_result_);
}

void RankedExecutor::discard_kv() {
  for (const auto& runner : runners_) runner->discard_kv();
}

}  // namespace quire
