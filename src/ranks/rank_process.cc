#include "ranks/rank_process.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "base/threads/thread_share.h"
#include "exec/dummy_step.h"
#include "ranks/plan_codec.h"

namespace quire {
namespace {

// Kinds of frames between the first rank and the others.
enum : uint32_t {
  kReady = 16,
  kInitialize = 17,
  kStep = 18,
  kDiscardKv = 19,
  kEnd = 20,
  kDone = 21
};

ModelRunnerOptions options_of(const ModelRunnerOptions& whole, const RankProcess& process) {
  ModelRunnerOptions options = whole;
  options.share = {process.rank, process.size, whole.share.whole_experts};
  if (whole.threads == 0) options.threads = share_of_threads(0, process.num_on_host);
  options.memory_utilization = whole.memory_utilization / process.num_on_host;
  return options;
}

// What ranks must have been started with alike: all that decides the bits, and the sizes of what
// they exchange.
std::string agreement_of(const ModelRunnerOptions& options, const ModelPlan& plan) {
  return fmt::format(
      "{} parameters, weights {}, KV cache {}, isa {}, model length {}, {} tokens and {} requests "
      "a "
      "step, blocks of {}, experts {}",
      plan.whole.num_parameters(), to_string(plan.dtype), to_string(plan.kv_dtype), options.isa,
      plan.limits.max_seq_len, plan.limits.max_tokens, plan.limits.max_reqs, options.block_size,
      options.share.whole_experts ? "whole" : "cut");
}

struct LoadedRank {
  std::unique_ptr<TcpRanks> ranks;
  std::unique_ptr<ModelRunner> runner;
};

Result<LoadedRank> load_rank(const ModelRunnerOptions& whole, const RankProcess& process) {
  ModelRunnerOptions options = options_of(whole, process);
  QUIRE_ASSIGN_OR_RETURN(const ModelPlan plan, ModelRunner::plan_only(options));
  LoadedRank loaded;
  QUIRE_ASSIGN_OR_RETURN(loaded.ranks, TcpRanks::join({.rank = process.rank,
                                                       .size = process.size,
                                                       .address = process.address,
                                                       .port = process.port,
                                                       .agreement = agreement_of(options, plan)}));
  QUIRE_RETURN_IF_ERROR(loaded.ranks->allocate(plan.shared_bytes));
  options.group = loaded.ranks.get();
  QUIRE_ASSIGN_OR_RETURN(loaded.runner, ModelRunner::create(std::move(options)));
  return loaded;
}

int64_t num_blocks(const ModelRunner& runner) {
  return runner.available_kv_bytes() / std::max<int64_t>(runner.kv_spec().block_bytes, 1);
}

// What a rank behind the first does. One object, one call of run().
class Follower {
 public:
  explicit Follower(LoadedRank loaded)
      : ranks_(std::move(loaded.ranks)), runner_(std::move(loaded.runner)) {}

  Status run() {
    const int64_t blocks = num_blocks(*runner_);
    QUIRE_RETURN_IF_ERROR(send_frame(first(), kReady, std::as_bytes(std::span(&blocks, 1)),
                                     deadline_in_ms(ranks_->deadline_ms())));
    for (Frame frame;;) {
      QUIRE_RETURN_IF_ERROR(receive_frame(first(), frame, 0));
      if (frame.kind == kEnd) return {};
      QUIRE_RETURN_IF_ERROR(obey(frame));
      QUIRE_RETURN_IF_ERROR(ranks_->status());
    }
  }

 private:
  const Socket& first() const { return ranks_->control(0); }

  Status obey(const Frame& frame) {
    switch (frame.kind) {
      case kInitialize: {
        QUIRE_ASSIGN_OR_RETURN(const KvPlan plan, decode_kv_plan(frame.payload));
        QUIRE_RETURN_IF_ERROR(runner_->initialize(plan));
        return send_frame(first(), kDone, {}, deadline_in_ms(ranks_->deadline_ms()));
      }
      case kDiscardKv:
        runner_->discard_kv();
        return {};
      case kStep: {
        QUIRE_RETURN_IF_ERROR(decode_step(frame.payload, step_));
        runner_->follow(step_.before);
        Result<StepResult> result = runner_->execute(step_.plan);
        // A step that fails does so on every rank, and the first one answers for it.
        if (result.ok()) runner_->recycle(std::move(*result));
        return {};
      }
      default:
        return data_loss("the first rank sent a frame of kind {}", frame.kind);
    }
  }

  std::unique_ptr<TcpRanks> ranks_;
  std::unique_ptr<ModelRunner> runner_;
  DecodedStep step_;
};

}  // namespace

Result<std::unique_ptr<LeadingExecutor>> LeadingExecutor::create(const ModelRunnerOptions& options,
                                                                 const RankProcess& process) {
  std::unique_ptr<LeadingExecutor> executor(new LeadingExecutor);
  QUIRE_ASSIGN_OR_RETURN(LoadedRank loaded, load_rank(options, process));
  executor->ranks_ = std::move(loaded.ranks);
  executor->runner_ = std::move(loaded.runner);
  executor->plan_ = executor->runner_->plan();
  ModelPlan& plan = executor->plan_;
  plan.spec = plan.whole;
  plan.kv = make_kv_layout(plan.whole, plan.kv.spec.block_size, plan.kv_dtype,
                           plan.kv.spec.state.block_size);
  QUIRE_RETURN_IF_ERROR(executor->hear_ready());
  return executor;
}

Status LeadingExecutor::hear_ready() {
  int64_t least = num_blocks(*runner_);
  for (int other = 1; other < ranks_->size(); ++other) {
    Frame frame;
    QUIRE_RETURN_IF_ERROR(receive_frame(ranks_->control(other), frame, 0)
                              .with_context(fmt::format("rank {} while it loads", other)));
    int64_t blocks = 0;
    if (frame.kind != kReady || frame.payload.size() != sizeof(blocks))
      return data_loss("rank {} sent a frame of kind {}", other, frame.kind);
    std::memcpy(&blocks, frame.payload.data(), sizeof(blocks));
    least = std::min(least, blocks);
  }
  const int64_t block_bytes = runner_->kv_spec().block_bytes;
  available_kv_bytes_ = block_bytes > 0
                            ? std::min(runner_->available_kv_bytes(), least * block_bytes)
                            : runner_->available_kv_bytes();
  log_info("{} ranks are ready", ranks_->size());
  return {};
}

LeadingExecutor::~LeadingExecutor() {
  message_.clear();
  if (ranks_ != nullptr && ranks_->status().ok()) (void)tell_all(kEnd);
}

Status LeadingExecutor::tell_all(uint32_t kind) {
  for (int other = 1; other < ranks_->size(); ++other) {
    const Status sent =
        send_frame(ranks_->control(other), kind, message_, deadline_in_ms(ranks_->deadline_ms()));
    if (sent.ok()) continue;
    ranks_->leave();
    return unavailable("rank {} of {}: {}", other, ranks_->size(), sent.message());
  }
  return {};
}

Status LeadingExecutor::initialize(const KvPlan& plan) {
  kv_plan_ = plan;
  encode_kv_plan(plan, message_);
  QUIRE_RETURN_IF_ERROR(tell_all(kInitialize));
  QUIRE_RETURN_IF_ERROR(runner_->initialize(plan));
  for (int other = 1; other < ranks_->size(); ++other) {
    Frame frame;
    QUIRE_RETURN_IF_ERROR(receive_frame(ranks_->control(other), frame, 0)
                              .with_context(fmt::format("rank {} while it takes memory", other)));
    if (frame.kind != kDone) return data_loss("rank {} sent a frame of kind {}", other, frame.kind);
  }
  return {};
}

Status LeadingExecutor::warm_up() { return execute_dummy(*this, plan_.limits, kv_plan_); }

Result<StepResult> LeadingExecutor::execute(const StepPlan& plan) {
  encode_step(last_, plan, message_);
  last_.requests.clear();
  QUIRE_RETURN_IF_ERROR(tell_all(kStep));
  Result<StepResult> result = runner_->execute(plan);
  if (!result.ok()) return result;
  for (const RequestStepResult& request : result->requests) {
    RequestStepResult& kept = last_.requests.emplace_back();
    kept.id = request.id;
    kept.status = request.status;
    kept.sampled_token_ids = request.sampled_token_ids;
  }
  return result;
}

void LeadingExecutor::discard_kv() {
  runner_->discard_kv();
  message_.clear();
  (void)tell_all(kDiscardKv);  // a rank that is gone is noticed at the next step
}

Status follow_first_rank(const ModelRunnerOptions& options, const RankProcess& process) {
  QUIRE_ASSIGN_OR_RETURN(LoadedRank loaded, load_rank(options, process));
  const Status status = Follower(std::move(loaded)).run();
  return status.with_context(fmt::format("rank {} of {}", process.rank, process.size));
}

}  // namespace quire
