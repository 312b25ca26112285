#include "ranks/gpu/gpu_ranked_executor.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/threads/thread_share.h"
#include "exec/dummy_step.h"
#include "exec/model_runner.h"
#include "ranks/parted_adapter.h"
#include "ranks/stage_memory.h"

namespace quire {
namespace {

// Returns one member's options, given those of the whole.
ModelRunnerOptions options_of_gpu(const ModelRunnerOptions& whole, int member,
                                  const GpuMembers& members) {
  ModelRunnerOptions options = whole;
  options.stage = {member / members.num_ranks(), members.num_stages()};
  options.share.rank = member % members.num_ranks();
  options.share.num_ranks = members.num_ranks();
  options.threads = share_of_threads(whole.threads, members.size());
  if (member > 0) options.on_progress = {};
  // Logits for on_logits are sampled on the host, and all members must do that alike.
  const bool is_sampler = options.stage.is_last() && options.share.rank == 0;
  if (whole.on_logits && !is_sampler)
    options.on_logits = [](RequestId, int32_t, std::span<const float>) {};
  return options;
}

// Plans the whole model, as if memory were unlimited, since a stage ignores what other stages have.
Result<ModelPlan> plan_whole(const ModelRunnerOptions& whole, int num_stages) {
  ModelRunnerOptions options = whole;
  options.dtype = options.kv_cache_dtype = "auto";
  options.free_memory_bytes = int64_t{1} << 60;
  options.kv_cache_memory_bytes = {};
  options.max_adapters = 0;
  QUIRE_ASSIGN_OR_RETURN(ModelPlan plan, ModelRunner::plan_only(options));
  QUIRE_RETURN_IF_ERROR(check_pipeline(plan, num_stages));
  return plan;
}

// Returns, by stage, its share of the memory for blocks of all layers. Empty if there is one stage.
Result<std::vector<double>> shares_of_blocks(const ModelRunnerOptions& options,
                                             const GpuMembers& members) {
  const int num_stages = members.num_stages();
  if (num_stages == 1) return std::vector<double>();
  QUIRE_ASSIGN_OR_RETURN(const ModelPlan plan, plan_whole(options, num_stages));
  const KvSpec all = layout_of(plan, members.num_ranks(), kAllLayers).spec;
  std::vector<double> shares;
  for (int32_t stage = 0; stage < num_stages; ++stage) {
    const RowRange layers = layers_of(plan.whole, {stage, num_stages});
    shares.push_back(share_of_blocks(layout_of(plan, members.num_ranks(), layers).spec, all));
  }
  return shares;
}

}  // namespace

// --- Making and ending ---

Result<std::unique_ptr<GpuRankedExecutor>> GpuRankedExecutor::create(
    const ModelRunnerOptions& options, const GpuRunnerOptions& gpu_options, RankedGpus gpus) {
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<GpuMembers> members,
                         GpuMembers::create(gpus.devices, gpus.num_stages, gpus.group));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<double> kv_shares, shares_of_blocks(options, *members));
  std::unique_ptr<GpuRankedExecutor> executor(new GpuRankedExecutor(std::move(members)));
  QUIRE_RETURN_IF_ERROR(executor->make_runners(options, gpu_options, kv_shares, gpus));
  executor->add_up_plans();
  return executor;
}

GpuRankedExecutor::GpuRankedExecutor(std::unique_ptr<GpuMembers> members)
    : members_(std::move(members)),
      sampler_(static_cast<size_t>(members_->size() - members_->num_ranks())),
      runners_(static_cast<size_t>(members_->size())) {}

Status GpuRankedExecutor::make_runners(const ModelRunnerOptions& options,
                                       const GpuRunnerOptions& gpu_options,
                                       const std::vector<double>& kv_shares, RankedGpus& gpus) {
  std::vector<int32_t> ordinals = gpus.later_ordinals;
  for (const auto& device : gpus.devices) ordinals.push_back(device->info().gpu.ordinal);
  return members_->run([&](int member) -> Status {
    const auto at = static_cast<size_t>(member);
    std::unique_ptr<Device> device = std::move(gpus.devices[at]);
    GpuRunnerOptions own = gpu_options;
    own.ranks = members_->ranks(member);
    own.link = members_->link(member);
    own.num_on_gpu =
        static_cast<int>(std::count(ordinals.begin(), ordinals.end(), device->info().gpu.ordinal));
    ModelRunnerOptions part = options_of_gpu(options, member, *members_);
    if (part.kv_cache_memory_bytes && !kv_shares.empty()) {
      const double share = kv_shares[static_cast<size_t>(part.stage.index)];
      part.kv_cache_memory_bytes = bytes_of_share(*part.kv_cache_memory_bytes, share);
    }
    Result<std::unique_ptr<GpuRunner>> runner =
        GpuRunner::create(std::move(part), own, std::move(device));
    if (!runner.ok()) {
      members_->leave(member);  // others may be waiting for it to load
      return runner.status();
    }
    runners_[at] = std::move(*runner);
    return {};
  });
}

// Ends all members at the same time, since work on one GPU may wait for another.
GpuRankedExecutor::~GpuRankedExecutor() {
  (void)members_->run([&](int member) -> Status {
    runners_[static_cast<size_t>(member)].reset();
    return {};
  });
}

void GpuRankedExecutor::add_up_plans() {
  plan_ = runners_.front()->model().plan();
  MemoryPlan& sum = plan_.memory;
  for (size_t member = 1; member < runners_.size(); ++member)
    sum.add(runners_[member]->model().plan().memory);
  kv_spec_ = layout_of(plan_, members_->num_ranks(), kAllLayers).spec;
  plan_.spec = plan_.staged = plan_.whole;
  plan_.kv = layout_of(plan_, 1, kAllLayers);
  sum.kv_spec = plan_.kv.spec;
}

int64_t GpuRankedExecutor::available_kv_bytes() const {
  std::vector<PartRoom> rooms;
  for (const auto& runner : runners_)
    rooms.push_back({runner->kv_spec(), runner->available_kv_bytes()});
  return least_room(rooms, kv_spec_);
}

KvHostMemory GpuRankedExecutor::host_memory() {
  KvHostMemory memory;
  for (const auto& runner : runners_) memory.add(runner->host_memory());
  return memory;
}

Status GpuRankedExecutor::initialize(const KvPlan& plan) {
  kv_plan_ = plan;
  return members_->run(
      [&](int member) { return runners_[static_cast<size_t>(member)]->initialize(plan); });
}

Status GpuRankedExecutor::warm_up() { return execute_dummy(*this, plan_.limits, kv_plan_); }

bool GpuRankedExecutor::work_while_idle() {
  std::atomic<bool> has_worked = false;
  (void)members_->run([&](int member) -> Status {
    if (runners_[static_cast<size_t>(member)]->work_while_idle()) has_worked = true;
    return {};
  });
  return has_worked;
}

Result<std::shared_ptr<const Adapter>> GpuRankedExecutor::load_adapter(
    const std::string& name, const std::string& path) const {
  auto adapter = std::make_shared<PartedAdapter>();
  for (const auto& runner : runners_) {
    QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<const Adapter> part, runner->load_adapter(name, path));
    QUIRE_RETURN_IF_ERROR(adapter->add(std::move(part), path));
  }
  return std::shared_ptr<const Adapter>(std::move(adapter));
}

// --- Steps ---

Status GpuRankedExecutor::run_plan(
    const StepPlan& plan,
    const std::function<Status(GpuRunner& runner, const StepPlan& own)>& work) {
  const bool differs = has_adapters(plan);
  return members_->run([&](int member) {
    const auto at = static_cast<size_t>(member);
    return differs ? work(*runners_[at], with_parts(plan, at)) : work(*runners_[at], plan);
  });
}

void GpuRankedExecutor::relay_tokens(const StepPlan& plan) {
  if (members_->num_stages() == 1) return;
  relayed_.push_back(relay_.add_step(plan));
  relay_.take(sampled_);
  for (int member = 0; member < static_cast<int>(sampler_); ++member)
    members_->link(member)->lend_sampled(sampled_);
}

Result<StepResult> GpuRankedExecutor::execute(const StepPlan& plan) {
  if (!plan.empty()) {
    QUIRE_RETURN_IF_ERROR(submit(plan));
    return collect();
  }
  relay_tokens(plan);
  if (!relayed_.empty()) relayed_.pop_back();
  QUIRE_RETURN_IF_ERROR(run_plan(
      plan, [](GpuRunner& runner, const StepPlan& own) { return runner.execute(own).status(); }));
  return StepResult{.step_id = plan.step_id};
}

Status GpuRankedExecutor::submit(const StepPlan& plan) {
  relay_tokens(plan);
  Status status =
      run_plan(plan, [](GpuRunner& runner, const StepPlan& own) { return runner.submit(own); });
  if (!status.ok() && !relayed_.empty()) relayed_.pop_back();
  return status;
}

Result<StepResult> GpuRankedExecutor::collect() {
  const Status status = members_->run([&](int member) -> Status {
    const auto at = static_cast<size_t>(member);
    QUIRE_ASSIGN_OR_RETURN(StepResult result, runners_[at]->collect());
    if (at == sampler_) {
      first_result_ = std::move(result);
    } else {
      runners_[at]->recycle(std::move(result));
    }
    return {};
  });
  if (!relayed_.empty()) {
    if (status.ok()) relay_.add_result(relayed_.front(), first_result_);
    relayed_.pop_front();
  }
  QUIRE_RETURN_IF_ERROR(status);
  return std::move(first_result_);
}

}  // namespace quire
