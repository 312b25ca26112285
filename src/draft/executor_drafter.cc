#include "draft/executor_drafter.h"

#include <algorithm>
#include <utility>

namespace quire {

Result<std::unique_ptr<ExecutorDrafter>> ExecutorDrafter::create(std::unique_ptr<Executor> executor,
                                                                 Options options) {
  if (executor->kv_spec().uses(KvPool::kState)) {
    return invalid_argument(
        "draft model: expected one whose layers keep no state, which a refused draft would have "
        "changed");
  }
  if (!executor->info().generates)
    return invalid_argument("draft model: expected one that generates, got one for pooling");
  return std::unique_ptr<ExecutorDrafter>(
      new ExecutorDrafter(std::move(executor), std::move(options)));
}

ExecutorDrafter::ExecutorDrafter(std::unique_ptr<Executor> executor, Options options)
    : executor_(std::move(executor)),
      options_(std::move(options)),
      cost_{.step_times = options_.step_times, .draft_class = options_.draft_class},
      kv_(executor_->kv_spec()),
      max_model_len_(executor_->info().max_model_len) {
  for (int32_t block = options_.num_blocks - 1; block > 0; --block)
    free_blocks_.push_back(BlockId{block});
}

void ExecutorDrafter::propose(std::span<DraftQuery> queries) {
  ++num_calls_;
  active_.clear();
  for (DraftQuery& query : queries) {
    query.draft_class = options_.draft_class;
    const auto num_tokens = static_cast<int64_t>(query.request->token_ids.size());
    query.max_drafts = static_cast<int32_t>(
        std::clamp<int64_t>(int64_t{max_model_len_} - num_tokens, 0, query.max_drafts));
    // The model here is without adapters: what it would say is something else.
    if (query.request->adapter != nullptr) query.max_drafts = 0;
    if (query.max_drafts == 0 || std::ssize(active_) == options_.max_seqs) continue;
    Record& record = record_of(*query.request);
    active_.push_back({&query, &record, static_cast<size_t>(num_tokens)});
  }
  feed();
  draft_on();
  for (Active& active : active_) {
    const std::vector<TokenId>& tokens = active.record->token_ids;
    active.query->token_ids =
        std::span(tokens).subspan(std::min(active.num_text_tokens, tokens.size()));
  }
}

// With the request's tokens, as far as its KV holds them.
ExecutorDrafter::Record& ExecutorDrafter::record_of(const Request& request) {
  Record& record = records_[request.id];
  if (record.params == nullptr) {
    // As the request samples, without what it wants to know of its samples.
    SamplingParams params = *request.params;
    params.logprobs.reset();
    params.prompt_logprobs.reset();
    params.logprob_token_ids.clear();
    params.max_tokens = max_model_len_;
    record.params = std::make_shared<const SamplingParams>(std::move(params));
    record.tables.resize(kv_.groups.size());
  }
  const std::vector<TokenId>& text = request.token_ids;
  const auto num_kept = static_cast<std::ptrdiff_t>(std::min(
      {static_cast<size_t>(record.num_computed), record.token_ids.size(), text.size() - 1}));
  const auto [own, theirs] =
      std::mismatch(record.token_ids.begin(), record.token_ids.begin() + num_kept, text.begin());
  record.num_computed = static_cast<int32_t>(own - record.token_ids.begin());
  record.token_ids.assign(text.begin(), text.end());
  record.last_call = num_calls_;
  return record;
}

// Blocks for so many tokens; false: there are not as many.
bool ExecutorDrafter::reserve(Record& record, int32_t num_tokens) {
  const auto num_blocks = static_cast<size_t>((num_tokens + kv_.block_size - 1) / kv_.block_size);
  for (std::vector<BlockId>& table : record.tables) {
    while (table.size() < num_blocks) {
      if (free_blocks_.empty() && !evict()) return false;
      table.push_back(free_blocks_.back());
      free_blocks_.pop_back();
    }
  }
  return true;
}

// Of the requests that are not asked now the one that was asked least recently; of equals the oldest.
bool ExecutorDrafter::evict() {
  auto victim = records_.end();
  for (auto it = records_.begin(); it != records_.end(); ++it) {
    if (it->second.last_call == num_calls_ || it->second.tables[0].empty()) continue;
    if (victim == records_.end() || std::pair(it->second.last_call, it->first.value) <
                                        std::pair(victim->second.last_call, victim->first.value)) {
      victim = it;
    }
  }
  if (victim == records_.end()) return false;
  release(victim->second);
  return true;
}

void ExecutorDrafter::release(Record& record) {
  for (std::vector<BlockId>& table : record.tables) {
    free_blocks_.insert(free_blocks_.end(), table.rbegin(), table.rend());
    table.clear();
  }
  record.num_computed = 0;
}

void ExecutorDrafter::forget(RequestId id) {
  const auto it = records_.find(id);
  if (it == records_.end()) return;
  release(it->second);
  if (it->second.known_to_executor) dropped_.push_back(id);
  records_.erase(it);
}

// One step: the tokens that the model has not seen, and the first draft of those that have all.
void ExecutorDrafter::feed() {
  StepPlan plan;
  std::vector<Active*> scheduled;
  int32_t budget = options_.max_step_tokens;
  for (Active& active : active_) {
    Record& record = *active.record;
    const auto num_tokens = static_cast<int32_t>(record.token_ids.size());
    const int32_t n = std::min(num_tokens - record.num_computed, budget);
    active.done = n <= 0 || !reserve(record, num_tokens + active.query->max_drafts - 1);
    if (active.done) continue;
    const RequestId id = active.query->request->id;
    if (record.known_to_executor) plan.dropped.push_back(id);
    record.known_to_executor = true;
    plan.new_requests.push_back({.id = id,
                                 .token_ids = record.token_ids,
                                 .num_prompt_tokens = active.query->request->num_prompt_tokens,
                                 .params = record.params});
    const auto index = static_cast<int32_t>(plan.scheduled.size());
    for (size_t group = 0; group < record.tables.size(); ++group) {
      for (size_t i = 0; i < record.tables[group].size(); ++i) {
        plan.block_updates.push_back(
            {index, static_cast<int32_t>(group), static_cast<int32_t>(i), record.tables[group][i]});
      }
    }
    plan.scheduled.push_back(
        {.id = id, .num_computed_tokens = record.num_computed, .num_scheduled_tokens = n});
    budget -= n;
    scheduled.push_back(&active);
  }
  if (!run(plan, scheduled)) return;
  for (Active* active : scheduled) {
    // Its prompt takes more steps.
    if (active->record->token_ids.size() == active->num_text_tokens) active->done = true;
  }
}

void ExecutorDrafter::draft_on() {
  std::vector<Active*> scheduled;
  while (true) {
    StepPlan plan;
    scheduled.clear();
    for (Active& active : active_) {
      const size_t num_drafts = active.record->token_ids.size() - active.num_text_tokens;
      if (active.done || num_drafts == static_cast<size_t>(active.query->max_drafts)) continue;
      plan.scheduled.push_back({.id = active.query->request->id,
                                .num_computed_tokens = active.record->num_computed,
                                .num_scheduled_tokens = 1});
      scheduled.push_back(&active);
    }
    if (scheduled.empty() || !run(plan, scheduled)) return;
  }
}

// A step, and what it samples behind the requests' tokens. After a failure nobody drafts.
bool ExecutorDrafter::run(StepPlan& plan, std::span<Active*> scheduled) {
  if (scheduled.empty()) return false;
  plan.step_id = ++step_id_;
  plan.dropped.insert(plan.dropped.end(), dropped_.begin(), dropped_.end());
  dropped_.clear();
  for (const ScheduledRequest& request : plan.scheduled)
    plan.total_num_scheduled_tokens += request.num_scheduled_tokens;
  Result<StepResult> result = executor_->execute(plan);
  const bool is_whole = result.ok() && result->requests.size() == scheduled.size();
  for (size_t i = 0; i < scheduled.size(); ++i) {
    Active& active = *scheduled[i];
    Record& record = *active.record;
    if (!is_whole || !result->requests[i].status.ok()) {
      active.done = true;
      record.token_ids.resize(active.num_text_tokens);
      record.num_computed = 0;
      continue;
    }
    record.num_computed += plan.scheduled[i].num_scheduled_tokens;
    const std::vector<TokenId>& sampled = result->requests[i].sampled_token_ids;
    record.token_ids.insert(record.token_ids.end(), sampled.begin(), sampled.end());
  }
  if (is_whole) executor_->recycle(std::move(*result));
  return is_whole;
}

}  // namespace quire
