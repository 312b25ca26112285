#include "sched/testing/content_executor.h"

#include "core/request.h"
#include "sched/stop_check.h"

namespace quire::test {

void ContentExecutor::apply_diff(const StepPlan& plan) {
  for (const HostBlockCopy& copy : plan.host_copies) memory_.copy(copy);
  for (const RequestId id : plan.dropped) {
    if (known_.erase(id) == 0) error("dropped {} is not known", id.value);
  }
  for (const NewRequest& request : plan.new_requests) {
    Known known{.tokens = with_media(request.token_ids, request.media),
                .tables = {spec_.groups.size(), std::vector<BlockId>{}},
                .kind = request.kind,
                .media = request.media};
    if (!known_.emplace(request.id, std::move(known)).second)
      error("new {} is known already", request.id.value);
  }
  for (const std::string& key : plan.freed_media) encoded_.erase(key);
  for (const auto& item : plan.media_inputs) {
    if (!encoded_.insert(item->key).second) error("S-11: {} is encoded already", item->key);
  }
  for (const BlockTableUpdate& update : plan.block_updates) {
    const RequestId id = plan.scheduled.at(static_cast<size_t>(update.request_index)).id;
    auto& table = known_.at(id).tables.at(static_cast<size_t>(update.group));
    const auto index = static_cast<size_t>(update.logical_index);
    if (table.size() < index + 1) table.resize(index + 1);
    table[index] = update.block;
  }
  for (const BlockCopy& copy : plan.block_copies) memory_.copy(copy);
}

void ContentExecutor::check_media(const ScheduledRequest& scheduled, const Known& known) {
  const int32_t begin = scheduled.num_computed_tokens;
  const int32_t end = begin + scheduled.num_scheduled_tokens;
  for (const MediaSpan& span : known.media) {
    if (span.end <= begin || span.begin >= end) continue;
    if (!encoded_.contains(span.item->key))
      error("S-11: request {} computes {} without its embeddings", scheduled.id, span.item->key);
    if (keeps_media_whole_ && !span.is_source() && end < span.end)
      error("S-11: request {} cuts {} at {}", scheduled.id, span.item->key, end);
  }
}

RequestStepResult ContentExecutor::run(const ScheduledRequest& scheduled, const StepPlan& plan) {
  RequestStepResult result;
  result.id = scheduled.id;
  const auto it = known_.find(scheduled.id);
  if (it == known_.end()) {
    error("scheduled {} is not known", scheduled.id.value);
    return result;
  }
  Known& known = it->second;
  if (known.failed) {  // a step behind the one in which it failed
    result.status = internal_error("failed before");
    return result;
  }
  const int32_t end = scheduled.num_computed_tokens + scheduled.num_scheduled_tokens;
  check_media(scheduled, known);
  const auto drafts = plan.drafts(scheduled);
  const size_t num_known = known.tokens.size();
  known.tokens.insert(known.tokens.end(), drafts.begin(), drafts.end());
  const auto size = static_cast<int32_t>(known.tokens.size());
  if (!drafts.empty() && end != size)
    error("request {}: drafts behind tokens that are not computed", scheduled.id.value);
  if (scheduled.num_scheduled_tokens < 1 || end > size) {
    error("S-1: request {} computes {} tokens after {} of {}", scheduled.id.value,
          scheduled.num_scheduled_tokens, scheduled.num_computed_tokens, size);
    return result;
  }
  if (!memory_.compute(known.tokens, scheduled.num_computed_tokens, end, known.tables)) {
    error("request {}: positions {} to {} read or wrote a wrong slot", scheduled.id.value,
          scheduled.num_computed_tokens, end);
  }
  known.tokens.resize(num_known);
  if (scheduled.id == failing_) {
    result.status = internal_error("injected");
    known.failed = true;
  } else if (end == size && samples(known.kind)) {
    bool is_draft = true;
    for (size_t i = 0; i <= drafts.size() && is_draft; ++i) {
      known.tokens.push_back(next_token(known.tokens, vocab_size_));
      result.sampled_token_ids.push_back(known.tokens.back());
      is_draft = i < drafts.size() && drafts[i] == known.tokens.back();
    }
  }
  return result;
}

StepResult ContentExecutor::execute(const StepPlan& plan) {
  memory_.begin_step();
  apply_diff(plan);
  StepResult result;
  result.step_id = plan.step_id;
  int32_t total = 0;
  for (const ScheduledRequest& scheduled : plan.scheduled) {
    result.requests.push_back(run(scheduled, plan));
    total += scheduled.num_scheduled_tokens;
  }
  if (total != plan.total_num_scheduled_tokens)
    error("S-1: the plan says {} tokens, it has {}", plan.total_num_scheduled_tokens, total);
  failing_ = {};
  return result;
}

std::vector<TokenId> with_media(std::vector<TokenId> tokens, const std::vector<MediaSpan>& media) {
  for (const MediaSpan& span : media) {
    uint64_t content = 0;
    for (const char c : span.item->key) content = mix(content, static_cast<unsigned char>(c));
    if (span.is_source()) {  // all tokens attend to it, so changing the first one is enough
      tokens[0] =
          static_cast<TokenId>(mix(content, static_cast<uint64_t>(tokens[0])) % 1'000'000'007);
      continue;
    }
    for (int32_t i = span.begin; i < span.end; ++i) {
      const auto index = static_cast<uint64_t>(span.first + i - span.begin);
      tokens[static_cast<size_t>(i)] = static_cast<TokenId>(mix(content, index) % 1'000'000'007);
    }
  }
  return tokens;
}

std::vector<TokenId> generate_alone(std::vector<TokenId> prompt, const SamplingParams& params,
                                    int32_t max_model_len, int32_t vocab_size) {
  Request request;
  request.num_prompt_tokens = static_cast<int32_t>(prompt.size());
  request.token_ids = std::move(prompt);
  request.params = std::make_shared<SamplingParams>(params);
  if (params.max_tokens == 0) return {};
  do {
    request.token_ids.push_back(next_token(request.token_ids, vocab_size));
  } while (!check_stop(request, max_model_len).finished);
  return {request.token_ids.begin() + request.num_prompt_tokens, request.token_ids.end()};
}

}  // namespace quire::test
