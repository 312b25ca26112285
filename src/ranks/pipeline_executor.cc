#include "ranks/pipeline_executor.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/check.h"
#include "base/threads/cpu_topology.h"
#include "core/step_timings.h"
#include "exec/dummy_step.h"
#include "ranks/parted_adapter.h"
#include "ranks/stage_memory.h"

namespace quire {
namespace {

// Returns one stage's options, given those of the whole.
ModelRunnerOptions options_of(const ModelRunnerOptions& whole, const ModelPlan& plan,
                              const PipelineStage& stage, int num_ranks) {
  ModelRunnerOptions options = part_of_machine(whole, stage.index, stage.count);
  options.stage = stage;
  // The memory that was free before any stage was loaded.
  options.free_memory_bytes = plan.memory.free_memory;
  if (whole.kv_cache_memory_bytes) {
    const RowRange layers = layers_of(plan.whole, stage);
    const double share = share_of_blocks(layout_of(plan, num_ranks, layers).spec,
                                         layout_of(plan, num_ranks, kAllLayers).spec);
    options.kv_cache_memory_bytes = bytes_of_share(*whole.kv_cache_memory_bytes, share);
  }
  if (!stage.is_first()) options.on_progress = {};
  if (!stage.is_last()) options.on_logits = {};
  return options;
}

}  // namespace

// --- Queue ---

void PipelineExecutor::Queue::push(std::unique_ptr<Step> step) {
  {
    const std::lock_guard lock(mutex_);
    steps_.push_back(std::move(step));
  }
  changed_.notify_one();
}

std::unique_ptr<PipelineExecutor::Step> PipelineExecutor::Queue::pop() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_closed_ || !steps_.empty(); });
  if (steps_.empty()) return nullptr;
  std::unique_ptr<Step> step = std::move(steps_.front());
  steps_.pop_front();
  return step;
}

void PipelineExecutor::Queue::close() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  changed_.notify_all();
}

// --- Making and ending ---

Result<std::unique_ptr<PipelineExecutor>> PipelineExecutor::create(
    const ModelRunnerOptions& options, const PipelineShape& shape) {
  if (shape.num_stages < 1 || shape.num_stages > RankGroup::kMaxRanks) {
    return invalid_argument("--pipeline-parallel-size: expected a number in [1, {}], got {}",
                            RankGroup::kMaxRanks, shape.num_stages);
  }
  // Checks the whole model here, since a stage ignores what other stages have.
  QUIRE_ASSIGN_OR_RETURN(const ModelPlan plan, ModelRunner::plan_only(options));
  QUIRE_RETURN_IF_ERROR(check_pipeline(plan, shape.num_stages));
  std::vector<std::unique_ptr<RankedExecutor>> executors;
  for (int32_t index = 0; index < shape.num_stages; ++index) {
    QUIRE_ASSIGN_OR_RETURN(
        executors.emplace_back(),
        RankedExecutor::create(
            options_of(options, plan, {index, shape.num_stages}, shape.num_ranks),
            shape.num_ranks));
  }
  std::unique_ptr<PipelineExecutor> executor(new PipelineExecutor);
  QUIRE_RETURN_IF_ERROR(executor->start(std::move(executors)));
  return executor;
}

Result<std::unique_ptr<PipelineExecutor>> PipelineExecutor::create_beside(
    const PipelineExecutor& first, const std::vector<int>& cpus) {
  std::vector<std::unique_ptr<RankedExecutor>> executors;
  for (int i = 0; i < first.num_stages(); ++i) {
    QUIRE_ASSIGN_OR_RETURN(
        executors.emplace_back(),
        RankedExecutor::create_beside(*first.stages_[static_cast<size_t>(i)].executor,
                                      cpus_of_part(cpus, i, first.num_stages())));
  }
  std::unique_ptr<PipelineExecutor> executor(new PipelineExecutor);
  QUIRE_RETURN_IF_ERROR(executor->start(std::move(executors)));
  return executor;
}

Status PipelineExecutor::start(std::vector<std::unique_ptr<RankedExecutor>> executors) {
  plan_ = executors.front()->plan();
  for (size_t i = 1; i < executors.size(); ++i) plan_.memory.add(executors[i]->plan().memory);
  plan_.memory.activations += std::ssize(executors) * plan_.limits.max_tokens *
                              plan_.whole.hidden_size * int64_t{sizeof(float)};  // Step::hidden
  plan_.spec = plan_.staged = plan_.whole;
  kv_spec_ = layout_of(plan_, executors.front()->num_ranks(), kAllLayers).spec;
  plan_.kv = layout_of(plan_, 1, kAllLayers);
  plan_.memory.kv_spec = plan_.kv.spec;
  for (auto& executor : executors)
    stages_.push_back({std::move(executor), std::make_unique<Queue>(), std::thread()});
  for (size_t i = 0; i < stages_.size(); ++i)
    stages_[i].thread = std::thread([this, i] { run_stage(i); });
  return {};
}

PipelineExecutor::~PipelineExecutor() {
  for (Stage& stage : stages_) {
    stage.inbox->close();
    if (stage.thread.joinable()) stage.thread.join();
  }
}

int64_t PipelineExecutor::available_kv_bytes() const {
  std::vector<PartRoom> rooms;
  for (const Stage& stage : stages_)
    rooms.push_back({stage.executor->kv_spec(), stage.executor->available_kv_bytes()});
  return least_room(rooms, kv_spec_);
}

KvHostMemory PipelineExecutor::host_memory() {
  KvHostMemory memory;
  for (const Stage& stage : stages_) memory.add(stage.executor->host_memory());
  return memory;
}

Status PipelineExecutor::initialize(const KvPlan& plan) {
  kv_plan_ = plan;
  for (Stage& stage : stages_) QUIRE_RETURN_IF_ERROR(stage.executor->initialize(plan));
  return {};
}

Status PipelineExecutor::warm_up() { return execute_dummy(*this, plan_.limits, kv_plan_); }

void PipelineExecutor::discard_kv() {
  QUIRE_CHECK(num_under_way_ == 0, "{} steps are under way", num_under_way_);
  for (Stage& stage : stages_) stage.executor->discard_kv();
}

Result<std::shared_ptr<const Adapter>> PipelineExecutor::load_adapter(
    const std::string& name, const std::string& path) const {
  auto adapter = std::make_shared<PartedAdapter>();
  for (const Stage& stage : stages_) {
    QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<const Adapter> part,
                           stage.executor->load_adapter(name, path));
    QUIRE_RETURN_IF_ERROR(adapter->add(std::move(part), path));
  }
  return std::shared_ptr<const Adapter>(std::move(adapter));
}

// --- Steps ---

Result<StepResult> PipelineExecutor::execute(const StepPlan& plan) {
  QUIRE_CHECK(num_under_way_ == 0, "{} steps are under way", num_under_way_);
  QUIRE_RETURN_IF_ERROR(submit(plan));
  return collect();
}

Status PipelineExecutor::submit(const StepPlan& plan) {
  std::unique_ptr<Step> step;
  if (spare_.empty()) {
    const int64_t size = plan_.limits.max_tokens * plan_.whole.hidden_size;
    step = std::make_unique<Step>();
    QUIRE_ASSIGN_OR_RETURN(step->memory, Arena::create(size * int64_t{sizeof(float)}));
    step->hidden = step->memory.allocate<float>(size);
  } else {
    step = std::move(spare_.back());
    spare_.pop_back();
  }
  step->number = relay_.add_step(plan);
  step->plan = plan;
  step->status = {};
  relay_.take(step->before);
  ++num_under_way_;
  stages_.front().inbox->push(std::move(step));
  return {};
}

Result<StepResult> PipelineExecutor::collect() {
  QUIRE_CHECK(num_under_way_ > 0, "no step is under way");
  std::unique_ptr<Step> step = done_.pop();
  --num_under_way_;
  if (step->status.ok()) relay_.add_result(step->number, step->result);
  Status status = std::move(step->status);
  StepResult result = std::exchange(step->result, {});
  spare_.push_back(std::move(step));
  if (!status.ok()) return status;
  return result;
}

void PipelineExecutor::run_stage(size_t index) {
  Queue& outbox = index + 1 < stages_.size() ? *stages_[index + 1].inbox : done_;
  while (std::unique_ptr<Step> step = stages_[index].inbox->pop()) {
    try {
      run_step(index, *step);
    } catch (const std::exception& e) {  // out of memory
      if (step->status.ok()) step->status = internal_error("stage {}: {}", index, e.what());
    }
    outbox.push(std::move(step));
  }
}

// Runs the step even if it has failed in a stage before, because all stages must do the drops and
// copies of its plan.
void PipelineExecutor::run_step(size_t index, Step& step) {
  RankedExecutor& executor = *stages_[index].executor;
  const bool is_last = index + 1 == stages_.size();
  if (!is_last) executor.follow(step.before);
  // A plan with more tokens than max_tokens fails in the first stage.
  const int64_t num_tokens =
      std::min<int64_t>(step.plan.total_num_scheduled_tokens, plan_.limits.max_tokens);
  const auto count = static_cast<size_t>(num_tokens * plan_.whole.hidden_size);
  RankedExecutor::Hidden hidden{.count = count};
  if (index > 0) hidden.in = step.hidden;
  if (!is_last) hidden.out = step.hidden;
  Result<StepResult> result = has_adapters(step.plan)
                                  ? executor.execute(with_parts(step.plan, index), hidden)
                                  : executor.execute(step.plan, hidden);
  if (!result.ok()) {
    if (step.status.ok()) step.status = result.status();
    return;
  }
  std::vector<int64_t> media_encode_us =
      std::move(index == 0 ? result->media_encode_us : step.result.media_encode_us);
  StepTimings timings = index == 0 ? StepTimings() : step.result.timings;
  add_times(timings, result->timings);
  timings.num_members += result->timings.num_members;
  if (is_last) {
    step.result = std::move(*result);
  } else {
    executor.recycle(std::move(*result));
  }
  step.result.timings = timings;
  step.result.media_encode_us = std::move(media_encode_us);
}

}  // namespace quire
