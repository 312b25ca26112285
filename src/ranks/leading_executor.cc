#include "ranks/leading_executor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "exec/dummy_step.h"
#include "ranks/plan_codec.h"
#include "ranks/stage_memory.h"

namespace quire {

Result<std::unique_ptr<LeadingExecutor>> LeadingExecutor::create(const ModelRunnerOptions& options,
                                                                 const RankProcess& process) {
  std::unique_ptr<LeadingExecutor> executor(new LeadingExecutor);
  QUIRE_ASSIGN_OR_RETURN(executor->rank_, LoadedRank::load(options, process));
  executor->adapters_ = std::make_unique<LeadingAdapters>(*executor->rank_);
  executor->others_blocks_ = std::make_unique<OthersHostBlocks>(executor->rank_->links());
  executor->plan_ = executor->rank_->runner().plan();
  ModelPlan& plan = executor->plan_;
  plan.spec = plan.staged = plan.whole;
  plan.kv = layout_of(plan, 1, kAllLayers);
  QUIRE_RETURN_IF_ERROR(executor->hear_ready());
  return executor;
}

Status LeadingExecutor::hear_ready() {
  available_kv_bytes_ = rank_->available_kv_bytes();
  const int size = rank_->process().size;
  for (int other = 1; other < size; ++other) {
    Frame frame;
    QUIRE_RETURN_IF_ERROR(rank_->receive(other, RankFrame::kReady, frame)
                              .with_context(fmt::format("rank {} while it loads", other)));
    int64_t bytes = 0;
    if (frame.payload.size() != sizeof(bytes))
      return data_loss("rank {} says that it is ready: expected {} bytes, got {}", other,
                       sizeof(bytes), frame.payload.size());
    std::memcpy(&bytes, frame.payload.data(), sizeof(bytes));
    available_kv_bytes_ = std::min(available_kv_bytes_, bytes);
  }
  log_info("{} ranks are ready, in {} stages", size, rank_->process().num_stages);
  return {};
}

// Says goodbye to the watches first: the other ranks end as soon as they receive kEnd, and this
// rank must not take that for a loss.
LeadingExecutor::~LeadingExecutor() {
  if (rank_ == nullptr || !rank_->links().status().ok()) return;
  rank_->links().end();
  message_.clear();
  (void)tell_all(RankFrame::kEnd);
}

Status LeadingExecutor::tell_all(RankFrame kind) {
  return rank_->broadcast().send(static_cast<uint32_t>(kind), message_);
}

Status LeadingExecutor::initialize(const KvPlan& plan) {
  kv_plan_ = plan;
  encode_kv_plan(plan, message_);
  QUIRE_RETURN_IF_ERROR(tell_all(RankFrame::kInitialize));
  QUIRE_RETURN_IF_ERROR(rank_->runner().initialize(plan));
  for (int other = 1; other < rank_->process().size; ++other) {
    QUIRE_RETURN_IF_ERROR(
        hear_done(other).with_context(fmt::format("rank {} while it takes memory", other)));
  }
  return {};
}

Status LeadingExecutor::hear_done(int other) {
  Frame frame;
  QUIRE_RETURN_IF_ERROR(rank_->receive(other, RankFrame::kDone, frame));
  QUIRE_ASSIGN_OR_RETURN(
      const HostBlockCopies copies,
      others_blocks_->take(other, frame.payload, layout_of_rank(other), kv_plan_));
  return rank_->send(other, RankFrame::kHostBlocks, std::as_bytes(std::span(copies)));
}

KvLayout LeadingExecutor::layout_of_rank(int rank) const {
  RankProcess process = rank_->process();
  process.rank = rank;
  const KvSpec& kv = plan_.kv.spec;
  return make_kv_layout(
      plan_.whole, kv.block_size, plan_.kv_dtype, kv.state.block_size,
      {.share = {process.rank_in_stage(), process.ranks_per_stage()},
       .layers = process.num_stages == 1 ? kAllLayers : layers_of(plan_.whole, process.stage())});
}

KvHostMemory LeadingExecutor::host_memory() {
  KvHostMemory memory = rank_->runner().host_memory();
  others_blocks_->add_to(memory);
  return memory;
}

Status LeadingExecutor::warm_up() { return execute_dummy(*this, plan_.limits, kv_plan_); }

Result<uint64_t> LeadingExecutor::tell_step(const StepPlan& plan) {
  const uint64_t number = relay_.add_step(plan);
  encode_step(relay_.take(), plan, adapters_->numbers_of(plan), message_);
  QUIRE_RETURN_IF_ERROR(tell_all(RankFrame::kStep));
  QUIRE_RETURN_IF_ERROR(others_blocks_->begin_step(plan));
  return number;
}

Result<StepResult> LeadingExecutor::finish(uint64_t number, const StepPlan& plan) {
  Result<StepResult> result = rank_->run(plan);
  QUIRE_RETURN_IF_ERROR(others_blocks_->end_step());
  if (result.ok()) relay_.add_result(number, *result);
  return result;
}

Result<StepResult> LeadingExecutor::execute(const StepPlan& plan) {
  QUIRE_CHECK(under_way_.empty(), "{} steps are under way", under_way_.size());
  QUIRE_ASSIGN_OR_RETURN(const uint64_t number, tell_step(plan));
  return finish(number, plan);
}

Status LeadingExecutor::submit(const StepPlan& plan) {
  QUIRE_ASSIGN_OR_RETURN(const uint64_t number, tell_step(plan));
  under_way_.push_back({number, plan});
  return {};
}

Result<StepResult> LeadingExecutor::collect() {
  QUIRE_CHECK(!under_way_.empty(), "no step is under way");
  const Step step = std::move(under_way_.front());
  under_way_.pop_front();
  return finish(step.number, step.plan);
}

void LeadingExecutor::discard_kv() {
  rank_->runner().discard_kv();
  message_.clear();
  (void)tell_all(RankFrame::kDiscardKv);  // the next step reports a rank that is gone
}

}  // namespace quire
