#include "ranks/loaded_rank.h"

#include <cstring>
#include <utility>

#include "base/threads/cpu_topology.h"
#include "base/threads/thread_share.h"
#include "core/step_timings.h"
#include "ranks/stage_memory.h"

namespace quire {
namespace {

ModelRunnerOptions options_of(const ModelRunnerOptions& whole, const RankProcess& process) {
  ModelRunnerOptions options = whole;
  options.stage = process.stage();
  options.share.rank = process.rank_in_stage();
  options.share.num_ranks = process.ranks_per_stage();
  if (whole.threads == 0) options.threads = share_of_threads(0, process.num_on_host);
  // A launcher that has bound each process leaves it one node, which is not divided again.
  options.cpus = cpus_of_part(whole.cpus, process.rank % process.num_on_host, process.num_on_host);
  options.memory_utilization = whole.memory_utilization / process.num_on_host;
  options.host_kv_bytes = whole.host_kv_bytes / process.size;
  options.shares_host_blocks = true;
  return options;
}

std::string agreement_of_experts(const ModelRunnerOptions& options) {
  const RankShare& share = options.share;
  const ExpertBalanceOptions& balance = options.expert_balance;
  if (!share.whole_experts) return "experts cut";
  std::string text = fmt::format("experts whole, combined in way {}, {} copies",
                                 static_cast<int>(share.combine), share.num_redundant_experts);
  if (balance.is_enabled) {
    text += fmt::format(", dealt out every {} steps by the last {}", balance.step_interval,
                        balance.window_size);
  }
  return text;
}

// Returns what all ranks must have been started with: everything that decides the bits, and the
// sizes of what they exchange.
std::string agreement_of(const ModelRunnerOptions& options, const ModelPlan& plan) {
  return fmt::format(
      "{} parameters, weights {}, KV cache {}, isa {}, model length {}, {} tokens and {} requests "
      "a step, blocks of {}, {}, stages {}, {} adapters of rank {}",
      plan.whole.num_parameters(), to_string(plan.dtype), to_string(plan.kv_dtype), options.isa,
      plan.limits.max_seq_len, plan.limits.max_tokens, plan.limits.max_reqs, options.block_size,
      agreement_of_experts(options), options.stage.count, options.max_adapters,
      options.max_lora_rank);
}

// Checks the whole model, as if memory were unlimited, since a stage ignores what other stages
// have.
Status check_whole(const ModelRunnerOptions& whole, const RankProcess& process) {
  if (process.num_stages < 1 || process.size % process.num_stages != 0) {
    return invalid_argument(
        "--pipeline-parallel-size: expected a number that divides the {} processes, got {}",
        process.size, process.num_stages);
  }
  if (process.num_stages == 1) return {};
  ModelRunnerOptions options = whole;
  options.free_memory_bytes = int64_t{1} << 60;
  QUIRE_ASSIGN_OR_RETURN(const ModelPlan plan, ModelRunner::plan_only(options));
  QUIRE_RETURN_IF_ERROR(check_pipeline(plan, process.num_stages));
  const int64_t step_bytes =
      plan.limits.max_tokens * plan.whole.hidden_size * static_cast<int64_t>(sizeof(float));
  if (step_bytes < kMaxFrameBytes / 2) return {};
  return invalid_argument(
      "--max-num-batched-tokens: expected steps whose hidden states, which go from stage to stage, "
      "take less than {} bytes, got {}",
      kMaxFrameBytes / 2, step_bytes);
}

// Precedes the hidden states of a step, or the text of the error with which it failed.
struct StepHeader {
  uint64_t step_id = 0;
  StepTimings timings;
};

}  // namespace

Result<std::unique_ptr<LoadedRank>> LoadedRank::load(const ModelRunnerOptions& whole,
                                                     const RankProcess& process) {
  QUIRE_RETURN_IF_ERROR(check_whole(whole, process));
  ModelRunnerOptions options = options_of(whole, process);
  QUIRE_ASSIGN_OR_RETURN(const ModelPlan plan, ModelRunner::plan_only(options));
  std::unique_ptr<LoadedRank> rank(
      new LoadedRank(process, layout_of(plan, process.ranks_per_stage(), kAllLayers).spec));
  QUIRE_ASSIGN_OR_RETURN(rank->links_, RankLinks::join({.rank = process.rank,
                                                        .size = process.size,
                                                        .address = process.address,
                                                        .port = process.port,
                                                        .agreement = agreement_of(options, plan)}));
  QUIRE_ASSIGN_OR_RETURN(rank->broadcast_, RankBroadcast::join(*rank->links_, process.transport));
  if (process.ranks_per_stage() > 1) {
    QUIRE_ASSIGN_OR_RETURN(JoinedRanks joined,
                           join_processes({.links = rank->links_.get(),
                                           .first = process.first_of_stage(),
                                           .size = process.ranks_per_stage()},
                                          plan.shared_bytes, process.transport));
    rank->group_ = std::move(joined.group);
    options.group = rank->group_.get();
    // Ranks that talk over TCP do not wait for each other when a plan has only copies.
    options.shares_host_blocks = joined.transport == RankTransport::kFastest;
  }
  QUIRE_ASSIGN_OR_RETURN(rank->runner_, ModelRunner::create(std::move(options)));
  return rank;
}

int64_t LoadedRank::available_kv_bytes() const {
  const PartRoom room{runner_->kv_spec(), runner_->available_kv_bytes()};
  return least_room({&room, 1}, kv_spec_);
}

Result<StepResult> LoadedRank::run(const StepPlan& plan) {
  const PipelineStage stage = process_.stage();
  Upstream upstream;
  if (!stage.is_first()) {
    QUIRE_ASSIGN_OR_RETURN(upstream, receive_hidden(plan));
  }
  Result<StepResult> result = runner_->execute(plan);
  // Waits for the copies of all ranks, which readers of host blocks rely on; a plan with only
  // copies has no other meeting of the ranks.
  if (!plan.host_copies.empty() && group_ != nullptr) group_->release();
  QUIRE_RETURN_IF_ERROR(links_->status());
  if (result.ok()) {
    add_times(result->timings, upstream.timings);
    result->timings.num_members += upstream.timings.num_members;
    upstream.timings = result->timings;
  } else if (upstream.status.ok()) {
    upstream.status = result.status();
  }
  if (!stage.is_last()) QUIRE_RETURN_IF_ERROR(send_hidden(plan, upstream));
  if (!upstream.status.ok()) return upstream.status;
  return result;
}

size_t LoadedRank::hidden_bytes(const StepPlan& plan) const {
  return static_cast<size_t>(plan.total_num_scheduled_tokens) *
         static_cast<size_t>(runner_->plan().whole.hidden_size) * sizeof(float);
}

Status LoadedRank::send_hidden(const StepPlan& plan, const Upstream& upstream) {
  const StepHeader header{plan.step_id, upstream.timings};
  const bool ok = upstream.status.ok();
  const auto rest = ok ? std::as_bytes(std::span(runner_->hidden(), hidden_bytes(plan) / 4))
                       : std::as_bytes(std::span(upstream.status.message()));
  message_.resize(sizeof(header) + rest.size());
  std::memcpy(message_.data(), &header, sizeof(header));
  std::memcpy(message_.data() + sizeof(header), rest.data(), rest.size());
  const auto kind = static_cast<uint32_t>(ok ? RankFrame::kHidden : RankFrame::kFailed);
  // No deadline: the next stage may compute for long before it reads. If it dies, the links end the
  // call.
  return lost(process_.next(), send_frame(links_->data(process_.next()), kind, message_, 0));
}

Result<LoadedRank::Upstream> LoadedRank::receive_hidden(const StepPlan& plan) {
  const int other = process_.previous();
  QUIRE_RETURN_IF_ERROR(lost(other, receive_frame(links_->data(other), frame_, 0)));
  StepHeader header;
  const bool failed = frame_.kind == static_cast<uint32_t>(RankFrame::kFailed);
  const bool is_known = failed || frame_.kind == static_cast<uint32_t>(RankFrame::kHidden);
  if (is_known && frame_.payload.size() >= sizeof(header)) {
    std::memcpy(&header, frame_.payload.data(), sizeof(header));
    const auto rest = std::span(frame_.payload).subspan(sizeof(header));
    if (header.step_id == plan.step_id && failed) {
      const std::string reason(reinterpret_cast<const char*>(rest.data()), rest.size());
      return Upstream{internal_error("{}", reason), header.timings};
    }
    const bool fits = plan.total_num_scheduled_tokens <= runner_->plan().limits.max_tokens;
    if (header.step_id == plan.step_id && fits && rest.size() == hidden_bytes(plan)) {
      std::memcpy(runner_->hidden(), rest.data(), rest.size());
      return Upstream{{}, header.timings};
    }
  }
  return lost(other, data_loss("expected the hidden states of step {} in {} bytes, got kind {} "
                               "of step {} in {}",
                               plan.step_id, hidden_bytes(plan), frame_.kind, header.step_id,
                               frame_.payload.size()));
}

Status LoadedRank::lost(int other, const Status& status) {
  if (status.ok()) return status;
  links_->break_at(other, status.message());
  return links_->status();
}

Status LoadedRank::send(int other, RankFrame kind, std::span<const std::byte> payload) {
  const std::lock_guard lock(sending_);
  return lost(other, send_frame(links_->control(other), static_cast<uint32_t>(kind), payload, 0));
}

Status LoadedRank::receive(int other, RankFrame kind, Frame& frame) {
  QUIRE_RETURN_IF_ERROR(lost(other, receive_frame(links_->control(other), frame, 0)));
  if (frame.kind == static_cast<uint32_t>(kind)) return {};
  return data_loss("rank {} sent a frame of kind {}, expected {}", other, frame.kind,
                   static_cast<uint32_t>(kind));
}

}  // namespace quire
