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
  if (!reads_states()) return;
  options_.hidden_rows->set_listener([this](std::span<const HiddenText> texts) { follow(texts); });
}

ExecutorDrafter::~ExecutorDrafter() {
  if (reads_states()) options_.hidden_rows->set_listener(nullptr);
}

void ExecutorDrafter::propose(std::span<DraftQuery> queries) {
  ++num_calls_;
  active_.clear();
  for (size_t i = 0; i < queries.size(); ++i) {
    DraftQuery& query = queries[i];
    query.draft_class = options_.draft_class;
    query.token_ids = {};
    const auto num_tokens = static_cast<int64_t>(query.request->token_ids.size());
    query.max_drafts = static_cast<int32_t>(
        std::clamp<int64_t>(int64_t{max_model_len_} - num_tokens, 0, query.max_drafts));
    if (options_.max_drafts > 0) query.max_drafts = std::min(query.max_drafts, options_.max_drafts);
    // The draft model has no adapters, so that its tokens would be those of another model.
    if (query.request->adapter != nullptr) query.max_drafts = 0;
    if (query.max_drafts == 0 || std::ssize(active_) == options_.max_seqs) continue;
    const Request& request = *query.request;
    const HiddenText text{.id = request.id,
                          .token_ids = request.token_ids,
                          .num_prompt_tokens = request.num_prompt_tokens,
                          .params = request.params};
    Record& record = record_of(text);
    if (!place(text, record)) continue;
    // The text must end one token after the last stored hidden state.
    if (reads_states() && options_.hidden_rows->range(query.request->id).end != num_tokens - 1)
      continue;
    add_active(text, record, query.max_drafts);
    active_.back().query = i;
  }
  feed();
  draft_on();
  for (Active& active : active_) {
    const std::vector<TokenId>& tokens = active.record->token_ids;
    queries[active.query].token_ids =
        std::span(tokens).subspan(std::min(active.num_text_tokens, tokens.size()));
    if (reads_states()) drop_used(active);
  }
}

// Hidden states that wait for drafts take memory. Those of prompts, and of requests that rarely
// draft, are used as soon as there are enough of them.
void ExecutorDrafter::follow(std::span<const HiddenText> texts) {
  ++num_calls_;
  active_.clear();
  HiddenRows& rows = *options_.hidden_rows;
  for (const HiddenText& text : texts) {
    const auto num_known = static_cast<int32_t>(text.token_ids.size()) - 1;
    rows.drop_from(text.id, num_known);
    if (!text.may_draft) {
      rows.forget(text.id);
      continue;
    }
    if (kv_.groups.empty()) {
      rows.drop_before(text.id, num_known - 1);
      continue;
    }
    const auto [begin, end] = rows.range(text.id);
    if (end - begin <= kMaxWaitingRows) continue;
    Record& record = record_of(text);
    if (!place(text, record)) continue;
    const int32_t num_waiting = end - record.next_state();
    if (num_waiting <= kMaxWaitingRows || std::ssize(active_) == options_.max_seqs) continue;
    add_active(text, record, 0);
    // The last token is left for the first draft.
    active_.back().num_fed = record.num_computed + num_waiting - (end == num_known ? 1 : 0);
  }
  while (feed()) {
  }
  for (Active& active : active_) {
    // It failed or had no room: start again here.
    if (active.record->num_computed < active.num_fed) {
      release(*active.record);
      rows.drop_before(active.id, rows.range(active.id).end - 1);
    }
    drop_used(active);
  }
}

ExecutorDrafter::Record& ExecutorDrafter::record_of(const HiddenText& text) {
  Record& record = records_[text.id];
  if (record.params == nullptr) {
    // Samples as the request does, but without logprobs and the like.
    SamplingParams params = *text.params;
    params.logprobs.reset();
    params.prompt_logprobs.reset();
    params.logprob_token_ids.clear();
    params.max_tokens = max_model_len_;
    record.params = std::make_shared<const SamplingParams>(std::move(params));
    record.tables.resize(kv_.groups.size());
    record.first_position = reads_states() ? 1 : 0;
  }
  record.last_call = num_calls_;
  take_text(text.token_ids, record);
  return record;
}

// Takes over the request's tokens, and keeps the part of the KV that agrees with them.
void ExecutorDrafter::take_text(std::span<const TokenId> text, Record& record) const {
  text = text.subspan(std::min(static_cast<size_t>(record.first_position), text.size()));
  const auto num_kept = static_cast<std::ptrdiff_t>(
      std::min({static_cast<size_t>(record.num_computed), record.token_ids.size(),
                std::max<size_t>(text.size(), 1) - 1}));
  const auto [own, theirs] =
      std::mismatch(record.token_ids.begin(), record.token_ids.begin() + num_kept, text.begin());
  record.num_computed = static_cast<int32_t>(own - record.token_ids.begin());
  record.token_ids.assign(text.begin(), text.end());
}

// Moves the record to a position from which the stored hidden states continue: its own, or, if the
// states in between were never computed (a cached prefix), behind the gap, with nothing computed.
// Returns false if there are no states for it.
bool ExecutorDrafter::place(const HiddenText& text, Record& record) {
  if (!reads_states()) return true;
  HiddenRows& rows = *options_.hidden_rows;
  rows.drop_from(text.id, static_cast<int32_t>(text.token_ids.size()) - 1);
  const HiddenRows::Range range = rows.range(text.id);
  if (range.begin == range.end) return false;
  if (kv_.groups.empty()) {
    record.num_computed = static_cast<int32_t>(record.token_ids.size()) - 1;
    return true;
  }
  if (record.next_state() > range.end) {  // the served model recomputes evicted tokens
    rows.forget(text.id);
    return false;
  }
  if (range.begin > record.next_state()) {
    record.first_position = range.begin + 1;
    record.num_computed = 0;
    take_text(text.token_ids, record);
  }
  return true;
}

void ExecutorDrafter::add_active(const HiddenText& text, Record& record, int32_t max_drafts) {
  const size_t num_tokens = record.token_ids.size();
  active_.push_back(
      {.id = text.id,
       .max_drafts = max_drafts,
       .record = &record,
       .num_text_tokens = num_tokens,
       .num_fed = static_cast<int32_t>(num_tokens),
       .num_prompt_tokens = std::max(0, text.num_prompt_tokens - record.first_position)});
}

// KV that was computed for drafts is based on the draft model's own hidden states, and must be
// recomputed from those of the served model. The last token's hidden state is kept, because drafts
// may be wanted after it again.
void ExecutorDrafter::drop_used(const Active& active) {
  Record& record = *active.record;
  record.num_computed = std::min(record.num_computed, static_cast<int32_t>(active.num_text_tokens));
  options_.hidden_rows->drop_before(active.id, record.next_state() - 1);
}

// Reserves blocks for so many tokens; returns false if there are not enough.
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

// Evicts the request that was queried least recently, among those not in this call; of equals, the
// oldest.
bool ExecutorDrafter::evict() {
  auto victim = records_.end();
  for (auto it = records_.begin(); it != records_.end(); ++it) {
    if (it->second.last_call == num_calls_ || it->second.tables.empty() ||
        it->second.tables[0].empty()) {
      continue;
    }
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
  if (reads_states()) options_.hidden_rows->forget(id);
  const auto it = records_.find(id);
  if (it == records_.end()) return;
  release(it->second);
  if (it->second.known_to_executor) dropped_.push_back(id);
  records_.erase(it);
}

// Runs one step: tokens that the model has not computed yet, and the first draft of requests whose
// text is complete. Returns false if there was nothing to compute.
bool ExecutorDrafter::feed() {
  StepPlan plan;
  std::vector<Active*> scheduled;
  int32_t budget = options_.max_step_tokens;
  for (Active& active : active_) {
    Record& record = *active.record;
    const int32_t n = std::min(active.num_fed - record.num_computed, budget);
    active.done = active.done || n <= 0 ||
                  !reserve(record, active.num_fed + std::max(0, active.max_drafts - 1));
    if (active.done) continue;
    add_to_plan(active, n, plan);
    budget -= n;
    scheduled.push_back(&active);
  }
  if (!run(plan, scheduled)) return false;
  for (Active* active : scheduled) {
    // Requests whose prompts need more steps are not done.
    if (active->max_drafts > 0 && active->record->token_ids.size() == active->num_text_tokens)
      active->done = true;
  }
  return true;
}

// Sends the whole request, with its next n tokens.
void ExecutorDrafter::add_to_plan(Active& active, int32_t n, StepPlan& plan) {
  Record& record = *active.record;
  if (reads_states()) options_.hidden_rows->set_first_position(active.id, record.first_position);
  if (record.known_to_executor) plan.dropped.push_back(active.id);
  record.known_to_executor = true;
  plan.new_requests.push_back({.id = active.id,
                               .token_ids = record.token_ids,
                               .num_prompt_tokens = active.num_prompt_tokens,
                               .params = record.params});
  const auto index = static_cast<int32_t>(plan.scheduled.size());
  for (size_t group = 0; group < record.tables.size(); ++group) {
    for (size_t i = 0; i < record.tables[group].size(); ++i) {
      plan.block_updates.push_back(
          {index, static_cast<int32_t>(group), static_cast<int32_t>(i), record.tables[group][i]});
    }
  }
  plan.scheduled.push_back(
      {.id = active.id, .num_computed_tokens = record.num_computed, .num_scheduled_tokens = n});
}

void ExecutorDrafter::draft_on() {
  std::vector<Active*> scheduled;
  while (true) {
    StepPlan plan;
    scheduled.clear();
    for (Active& active : active_) {
      const size_t num_drafts = active.record->token_ids.size() - active.num_text_tokens;
      if (active.done || num_drafts == static_cast<size_t>(active.max_drafts)) continue;
      plan.scheduled.push_back({.id = active.id,
                                .num_computed_tokens = active.record->num_computed,
                                .num_scheduled_tokens = 1});
      scheduled.push_back(&active);
    }
    if (scheduled.empty() || !run(plan, scheduled)) return;
  }
}

// Runs a step and appends the sampled tokens to the requests. After a failure, no request gets
// drafts.
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
