#include "ranks/gpu/gpu_ranked_executor.h"

#include <algorithm>
#include <utility>

#include "base/threads/thread_share.h"
#include "exec/dummy_step.h"

namespace quire {
namespace {

// One rank's part of what the whole may take.
ModelRunnerOptions options_of_gpu(const ModelRunnerOptions& whole, int rank, int num_ranks) {
  ModelRunnerOptions options = whole;
  options.share.rank = rank;
  options.share.num_ranks = num_ranks;
  options.threads = share_of_threads(whole.threads, num_ranks);
  if (rank == 0) return options;
  options.on_progress = {};
  // Logits that somebody looks at are sampled on the host, which all ranks then do.
  if (whole.on_logits) options.on_logits = [](RequestId, int32_t, std::span<const float>) {};
  return options;
}

}  // namespace

Result<std::unique_ptr<GpuRankedExecutor>> GpuRankedExecutor::create(
    const ModelRunnerOptions& options, const GpuRunnerOptions& gpu_options, RankedGpus gpus) {
  const auto num_ranks = static_cast<int>(gpus.devices.size());
  std::unique_ptr<GpuRankedExecutor> executor(new GpuRankedExecutor(num_ranks));
  QUIRE_ASSIGN_OR_RETURN(executor->groups_, GpuRanks::create(gpus.devices, gpus.group));
  QUIRE_RETURN_IF_ERROR(executor->run([&](int rank) -> Status {
    const auto at = static_cast<size_t>(rank);
    GpuRunnerOptions of_rank = gpu_options;
    of_rank.ranks = executor->groups_[at].get();
    Result<std::unique_ptr<GpuRunner>> runner = GpuRunner::create(
        options_of_gpu(options, rank, num_ranks), of_rank, std::move(gpus.devices[at]));
    if (!runner.ok()) {
      of_rank.ranks->leave();  // others may wait for it to load
      return runner.status();
    }
    executor->runners_[at] = std::move(*runner);
    return {};
  }));
  executor->add_up_plans();
  return executor;
}

GpuRankedExecutor::GpuRankedExecutor(int num_ranks)
    : runners_(static_cast<size_t>(num_ranks)),
      statuses_(static_cast<size_t>(num_ranks)),
      threads_(num_ranks) {}

// What is queued on one GPU may wait for another: all of them end at the same time.
GpuRankedExecutor::~GpuRankedExecutor() {
  (void)threads_.run([&](int rank) -> Status {
    runners_[static_cast<size_t>(rank)].reset();
    return {};
  });
}

Status GpuRankedExecutor::run(const std::function<Status(int rank)>& work) {
  (void)threads_.run([&](int rank) -> Status {
    const auto at = static_cast<size_t>(rank);
    statuses_[at] = work(rank);
    if (statuses_[at].code() == StatusCode::kUnavailable && !groups_.empty()) groups_[at]->leave();
    return {};
  });
  const auto is_ok = [](const Status& status) { return status.ok(); };
  const auto num_ok = std::count_if(statuses_.begin(), statuses_.end(), is_ok);
  if (num_ok == std::ssize(statuses_)) return {};
  // What a rank says by itself explains more than that the others missed it.
  const auto tells = [](const Status& status) {
    return !status.ok() && status.code() != StatusCode::kUnavailable;
  };
  auto first = std::find_if(statuses_.begin(), statuses_.end(), tells);
  if (first == statuses_.end()) first = std::find_if_not(statuses_.begin(), statuses_.end(), is_ok);
  const auto rank = static_cast<size_t>(first - statuses_.begin());
  if (num_ok > 0) groups_[rank]->leave();
  return *first;
}

void GpuRankedExecutor::add_up_plans() {
  plan_ = runners_.front()->model().plan();
  MemoryPlan& sum = plan_.memory;
  for (size_t rank = 1; rank < runners_.size(); ++rank)
    sum.add(runners_[rank]->model().plan().memory);
  const KvSpec& kv = plan_.kv.spec;
  plan_.spec = plan_.whole;
  plan_.kv = make_kv_layout(plan_.whole, kv.block_size, plan_.kv_dtype, kv.state.block_size);
  sum.kv_spec = plan_.kv.spec;
}

// Ranks with more heads hold fewer blocks in as many bytes: the fewest blocks count, in bytes of
// the first rank's.
int64_t GpuRankedExecutor::available_kv_bytes() const {
  const auto block_bytes = [](const GpuRunner& runner) {
    return std::max<int64_t>(runner.kv_spec().block_bytes, 1);
  };
  int64_t bytes = runners_.front()->available_kv_bytes();
  for (const auto& runner : runners_) {
    bytes = std::min(bytes, runner->available_kv_bytes() / block_bytes(*runner) *
                                block_bytes(*runners_.front()));
  }
  return bytes;
}

Status GpuRankedExecutor::initialize(const KvPlan& plan) {
  kv_plan_ = plan;
  return run([&](int rank) { return runners_[static_cast<size_t>(rank)]->initialize(plan); });
}

Status GpuRankedExecutor::warm_up() { return execute_dummy(*this, plan_.limits, kv_plan_); }

Result<StepResult> GpuRankedExecutor::run_step(
    const std::function<Result<StepResult>(GpuRunner&)>& work) {
  QUIRE_RETURN_IF_ERROR(run([&](int rank) -> Status {
    GpuRunner& runner = *runners_[static_cast<size_t>(rank)];
    QUIRE_ASSIGN_OR_RETURN(StepResult result, work(runner));
    if (rank == 0) {
      first_result_ = std::move(result);
    } else {
      runner.recycle(std::move(result));
    }
    return {};
  }));
  return std::move(first_result_);
}

Result<StepResult> GpuRankedExecutor::execute(const StepPlan& plan) {
  return run_step([&](GpuRunner& runner) { return runner.execute(plan); });
}

Status GpuRankedExecutor::submit(const StepPlan& plan) {
  return run([&](int rank) { return runners_[static_cast<size_t>(rank)]->submit(plan); });
}

Result<StepResult> GpuRankedExecutor::collect() {
  return run_step([](GpuRunner& runner) { return runner.collect(); });
}

bool GpuRankedExecutor::work_while_idle() {
  bool has_worked = false;
  (void)threads_.run([&](int rank) -> Status {
    const bool worked = runners_[static_cast<size_t>(rank)]->work_while_idle();
    if (rank == 0) has_worked = worked;
    return {};
  });
  return has_worked;
}

}  // namespace quire
