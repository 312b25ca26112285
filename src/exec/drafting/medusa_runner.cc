#include "exec/drafting/medusa_runner.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "exec/dummy_step.h"
#include "exec/model_loading.h"
#include "nn/drafting/draft_vocab.h"

namespace quire {
namespace {

DecoderLimits limits_of(const ModelRunnerOptions& options, int64_t vocab_size,
                        int64_t max_model_len) {
  DecoderLimits limits;
  limits.max_tokens = options.max_num_batched_tokens;
  limits.max_reqs = std::min(options.max_num_seqs, options.max_num_batched_tokens);
  limits.max_seq_len = max_model_len;
  const int64_t row_bytes = vocab_size * static_cast<int64_t>(sizeof(float));
  limits.max_logit_rows =
      std::clamp<int64_t>(options.max_logits_bytes / row_bytes, 1, limits.max_tokens);
  return limits;
}

}  // namespace

Result<std::unique_ptr<MedusaRunner>> MedusaRunner::create(ModelRunnerOptions options,
                                                           const ModelConfig& served) {
  QUIRE_ASSIGN_OR_RETURN(const Isa isa, parse_isa(options.isa));
  QUIRE_ASSIGN_OR_RETURN(ThreadTeam team, start_team(options));
  const std::string source = options.files->source();
  Result<MedusaCheckpoint> checkpoint =
      read_medusa(*options.files, served.hidden_size, served.vocab_size);
  if (!checkpoint.ok()) return checkpoint.status().with_context(source);
  std::unique_ptr<MedusaRunner> runner(new MedusaRunner(std::move(options), std::move(team), isa,
                                                        std::move(*checkpoint), served.vocab_size,
                                                        served.max_model_len()));
  Status loaded = runner->load();
  if (!loaded.ok()) return loaded.with_context(source);
  return runner;
}

MedusaRunner::MedusaRunner(ModelRunnerOptions options, ThreadTeam team, Isa isa,
                           MedusaCheckpoint checkpoint, int64_t vocab_size, int64_t max_model_len)
    : options_(std::move(options)),
      team_(std::move(team)),
      stream_(team_, isa),
      packing_(stream_),
      checkpoint_(std::move(checkpoint)),
      vocab_size_(vocab_size),
      limits_(limits_of(options_, vocab_size, max_model_len)),
      requests_(vocab_size, max_model_len, 0),
      batch_(limits_, KvSpec()) {}

Status MedusaRunner::load() {
  const DType dtype = dominant_dtype(checkpoint_.source);
  const ComputeType products =
      options_.compute.value_or(dtype == DType::kBF16 ? ComputeType::kBF16 : ComputeType::kF32);
  heads_ = std::make_unique<MedusaHeads>(checkpoint_.spec, dtype, products);
  QUIRE_ASSIGN_OR_RETURN(const LoadPlan plan, resolve_checkpoint(heads_->slots(), medusa_names(),
                                                                 {}, checkpoint_.source, packing_));
  QUIRE_ASSIGN_OR_RETURN(weight_arena_, Arena::create(plan.arena_bytes()));
  QUIRE_RETURN_IF_ERROR(
      load_checkpoint(plan, weight_arena_,
                      {.release_pages = options_.files->source() != "<memory>", .team = &team_}));
  const MedusaSpec& spec = checkpoint_.spec;
  const int64_t rows = limits_.max_logit_rows;
  const int64_t num_few = checkpoint_.token_map.empty() ? 0 : rows * spec.num_logits;
  QUIRE_ASSIGN_OR_RETURN(
      workspace_arena_,
      Arena::create(heads_->workspace_bytes(stream_, rows) + Arena::padded(rows * vocab_size_ * 4) +
                    Arena::padded(rows * spec.hidden_size * 4) + Arena::padded(num_few * 4)));
  heads_->make_workspace(stream_, rows, workspace_arena_);
  states_ = workspace_arena_.allocate<float>(rows * spec.hidden_size);
  few_logits_ = workspace_arena_.allocate<float>(num_few);
  float* const out = workspace_arena_.allocate<float>(rows * vocab_size_);
  logits_ = std::make_unique<LogitsStage>(
      [this, out](std::span<const int32_t> tokens) {
        compute(tokens, out);
        return Status();
      },
      nullptr, team_, std::span(out, static_cast<size_t>(rows * vocab_size_)), vocab_size_, rows);
  places_.resize(static_cast<size_t>(limits_.max_tokens));
  return {};
}

ExecutorInfo MedusaRunner::info() const {
  return {.vocab_size = static_cast<int32_t>(vocab_size_),
          .max_model_len = static_cast<int32_t>(limits_.max_seq_len)};
}

Status MedusaRunner::warm_up() { return quire::execute_dummy(*this, limits_, {}); }

// The served model's last stored hidden state is the one that it sampled the request's last known
// token from. Each token drafted after that one comes from the next head.
void MedusaRunner::find_places() {
  for (const LogitsRow& row : batch_.logits_rows()) {
    const RequestState& state = batch_.request(static_cast<size_t>(row.request_index));
    const int32_t last = options_.hidden_rows->range(state.id).end - 1;
    const int32_t position = state.first_position + row.position - 2;
    places_[static_cast<size_t>(row.token)] = {
        .id = state.id,
        .position = std::min(position, last),
        .head = std::clamp(position - last, 0, num_heads() - 1)};
  }
}

void MedusaRunner::compute(std::span<const int32_t> tokens, float* out) {
  const int64_t width = checkpoint_.spec.hidden_size;
  const bool knows_all = checkpoint_.token_map.empty();
  // Computes consecutive rows of one head together, in order.
  for (size_t begin = 0, end = 0; begin < tokens.size(); begin = end) {
    const auto place = [&](size_t i) -> const Place& {
      return places_[static_cast<size_t>(tokens[i])];
    };
    for (end = begin; end < tokens.size() && place(end).head == place(begin).head; ++end) {
      float* const state = states_ + static_cast<int64_t>(end - begin) * width;
      std::fill_n(state, width, 0.0f);
      if (options_.hidden_rows->range(place(end).id).contains(place(end).position))
        std::ranges::copy(options_.hidden_rows->row(place(end).id, place(end).position), state);
    }
    const size_t num_rows = end - begin;
    float* const logits = out + static_cast<int64_t>(begin) * vocab_size_;
    heads_->logits(stream_, place(begin).head, states_, static_cast<int64_t>(num_rows),
                   knows_all ? logits : few_logits_);
    if (knows_all) continue;
    const auto size = static_cast<size_t>(vocab_size_);
    expand_logits(checkpoint_.token_map, few_logits_, std::span(logits, num_rows * size), size);
  }
}

Result<StepResult> MedusaRunner::execute(const StepPlan& plan) {
  const SteadyClock clock;
  const int64_t start_us = clock.now_us();
  QUIRE_RETURN_IF_ERROR(requests_.apply(plan, {}, 0));
  for (const NewRequest& request : plan.new_requests)
    requests_.find(request.id)->first_position = options_.hidden_rows->first_position(request.id);
  StepResult result{.step_id = plan.step_id};
  if (plan.empty()) return result;
  QUIRE_RETURN_IF_ERROR(batch_.build(plan, requests_));
  batch_.start_results(plan, result.requests);
  find_places();
  QUIRE_RETURN_IF_ERROR(logits_->run(batch_, result.requests, {}, result.timings));
  result.execute_us = clock.now_us() - start_us;
  return result;
}

}  // namespace quire
