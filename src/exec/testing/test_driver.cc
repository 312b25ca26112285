#include "exec/testing/test_driver.h"

#include <algorithm>
#include <deque>

namespace quire::test {

std::vector<uint32_t> third_mask(int32_t vocab_size, std::span<const TokenId> token_ids) {
  std::vector<uint32_t> mask(static_cast<size_t>(words_per_mask(vocab_size)), 0);
  for (TokenId id = 0; id < vocab_size; ++id) {
    if ((id + token_ids.back()) % 3 != 0) mask[static_cast<size_t>(id) / 32] |= 1u << (id % 32);
  }
  return mask;
}

bool PlanDriver::Live::done() const {
  return !output.status.ok() ||
         static_cast<int32_t>(output.token_ids.size()) >= request.params.max_tokens;
}

BlockId PlanDriver::take_block(KvPool pool) {
  int32_t& next_block = next_block_[static_cast<size_t>(pool)];
  QUIRE_CHECK(next_block < num_blocks_, "the test needs more blocks than {}", num_blocks_);
  return BlockId{next_block++};
}

std::vector<TokenId> PlanDriver::draft(const Live& live, const DriverOptions& options) {
  std::vector<TokenId> drafts;
  const auto right = options.outputs.find(live.request.id);
  if (options.num_drafts == 0 || right == options.outputs.end()) return drafts;
  const size_t known = live.output.token_ids.size();
  const auto left = live.request.params.max_tokens - static_cast<int32_t>(known) - 1;
  for (int32_t i = 0; i < std::min(options.num_drafts, left); ++i) {
    const TokenId token = right->second.at(known + static_cast<size_t>(i));
    const bool is_wrong = ++num_drafted_ % 3 == 0;
    drafts.push_back(is_wrong ? (token + 1) % executor_.info().vocab_size : token);
  }
  return drafts;
}

void PlanDriver::add_to_plan(Live& live, int32_t num_tokens, std::span<const TokenId> drafts,
                             StepPlan& plan) {
  const KvSpec spec = executor_.kv_spec();
  const RequestId id{live.request.id};
  const auto index = static_cast<int32_t>(plan.scheduled.size());
  const bool first = !live.sent;
  if (first) {
    plan.new_requests.push_back(
        {.id = id,
         .token_ids = live.token_ids,
         .num_prompt_tokens = static_cast<int32_t>(live.request.prompt.size()),
         .params = std::make_shared<SamplingParams>(live.request.params),
         .adapter = live.request.adapter});
    live.sent = true;
  }
  const int32_t known_end = live.num_computed + num_tokens;
  const int32_t end = known_end + static_cast<int32_t>(drafts.size());
  live.tables.resize(spec.groups.size());
  for (size_t group = 0; group < spec.groups.size(); ++group) {
    auto& table = live.tables[group];
    const KvPool pool = spec.groups[group].pool();
    const int32_t block_size = spec.pool(pool).block_size;
    const auto needed = static_cast<size_t>((end + block_size - 1) / block_size);
    const size_t known = first ? 0 : table.size();
    while (table.size() < needed) table.push_back(take_block(pool));
    for (size_t i = known; i < table.size(); ++i) {
      plan.block_updates.push_back(
          {index, static_cast<int32_t>(group), static_cast<int32_t>(i), table[i]});
    }
  }
  plan.scheduled.push_back({.id = id,
                            .num_computed_tokens = live.num_computed,
                            .num_scheduled_tokens = end - live.num_computed,
                            .num_drafts = end - known_end,
                            .first_draft = static_cast<int32_t>(plan.draft_token_ids.size())});
  plan.draft_token_ids.insert(plan.draft_token_ids.end(), drafts.begin(), drafts.end());
  plan.total_num_scheduled_tokens += end - live.num_computed;
  if (!live.request.mask || known_end < static_cast<int32_t>(live.token_ids.size())) return;
  std::vector<TokenId> path = live.token_ids;
  const int32_t first_row = plan.token_masks.num_rows();
  for (size_t i = 0; i <= drafts.size(); ++i) {
    const std::vector<uint32_t> mask = live.request.mask(path);
    plan.token_masks.num_words = static_cast<int32_t>(mask.size());
    plan.token_masks.words.insert(plan.token_masks.words.end(), mask.begin(), mask.end());
    if (i < drafts.size()) path.push_back(drafts[i]);
  }
  plan.scheduled.back().mask_row = first_row;
}

PlanDriver::Step PlanDriver::make_step(std::vector<Live>& lives, const DriverOptions& options,
                                       size_t part, size_t num_parts) {
  Step step;
  StepPlan& plan = step.plan;
  for (size_t i = part; i < lives.size(); i += num_parts) {
    Live& live = lives[i];
    const auto wanted = static_cast<int32_t>(live.token_ids.size()) - live.num_computed;
    const int32_t left = options.step_tokens - plan.total_num_scheduled_tokens;
    const int32_t granted = std::min({wanted, left, options.chunk});
    if (live.done() || granted <= 0) continue;
    std::vector<TokenId> drafts = granted == wanted ? draft(live, options) : std::vector<TokenId>();
    drafts.resize(std::min(drafts.size(), static_cast<size_t>(left - granted)));
    add_to_plan(live, granted, drafts, plan);
    step.scheduled.push_back(&live);
  }
  if (!plan.empty()) plan.dropped = std::exchange(dropped_, {});
  return step;
}

void PlanDriver::finish(const Step& step, const Result<StepResult>& result,
                        const DriverOptions& options) {
  const StepPlan& plan = step.plan;
  QUIRE_CHECK(result.ok(), "{}", result.status().message());
  for (size_t i = 0; i < step.scheduled.size(); ++i) {
    Live& live = *step.scheduled[i];
    const RequestStepResult& one = result->requests[i];
    const int32_t num_accepted =
        std::max(0, static_cast<int32_t>(one.sampled_token_ids.size()) - 1);
    num_accepted_ += num_accepted;
    live.num_computed +=
        plan.scheduled[i].num_scheduled_tokens - plan.scheduled[i].num_drafts + num_accepted;
    live.output.status = one.status;
    DriverOutput& output = live.output;
    output.token_ids.insert(output.token_ids.end(), one.sampled_token_ids.begin(),
                            one.sampled_token_ids.end());
    live.token_ids.insert(live.token_ids.end(), one.sampled_token_ids.begin(),
                          one.sampled_token_ids.end());
    output.logprobs.insert(output.logprobs.end(), one.logprobs.begin(), one.logprobs.end());
    output.prompt_logprobs.insert(output.prompt_logprobs.end(), one.prompt_logprobs.begin(),
                                  one.prompt_logprobs.end());
    if (options.preempt_after_output > 0 && !live.preempted &&
        static_cast<int32_t>(output.token_ids.size()) >= options.preempt_after_output) {
      dropped_.push_back(RequestId{live.request.id});
      live.preempted = true;
      live.sent = false;
      live.num_computed = 0;
      live.tables.clear();
    }
  }
}

void PlanDriver::run_all(std::vector<Live>& lives, const DriverOptions& options) {
  constexpr int32_t kMostParts = 4;
  const auto num_parts = static_cast<size_t>(
      executor_.feeds_its_samples() ? 1 : std::min(executor_.max_steps_in_flight(), kMostParts));
  const auto is_done = [](const Live& live) { return live.done(); };
  std::deque<Step> under_way;
  for (size_t i = 0; !under_way.empty() || !std::all_of(lives.begin(), lives.end(), is_done); ++i) {
    Step step = make_step(lives, options, i % num_parts, num_parts);
    if (num_parts == 1) {
      finish(step, executor_.execute(step.plan), options);
      continue;
    }
    const bool waits = step.plan.empty() || under_way.size() + 1 == num_parts;
    if (!step.plan.empty()) {
      const Status submitted = executor_.submit(step.plan);
      QUIRE_CHECK(submitted.ok(), "{}", submitted.message());
      under_way.push_back(std::move(step));
    }
    if (!waits || under_way.empty()) continue;
    finish(under_way.front(), executor_.collect(), options);
    under_way.pop_front();
  }
  for (const Live& live : lives) {
    dropped_.push_back(RequestId{live.request.id});
    tables_of_[live.request.id] = live.tables;
  }
}

std::map<uint64_t, DriverOutput> PlanDriver::run(const std::vector<DriverRequest>& requests,
                                                 const DriverOptions& options) {
  std::vector<Live> lives;
  for (const DriverRequest& request : requests) {
    Live live;
    live.request = request;
    live.token_ids = request.prompt;
    lives.push_back(std::move(live));
  }
  run_all(lives, options);
  std::map<uint64_t, DriverOutput> outputs;
  for (Live& live : lives) outputs[live.request.id] = std::move(live.output);
  return outputs;
}

DriverOutput PlanDriver::run_after_hit(const DriverRequest& request, uint64_t source,
                                       int32_t num_blocks, const DriverOptions& options) {
  std::vector<Live> lives(1);
  lives[0].request = request;
  lives[0].token_ids = request.prompt;
  const KvSpec spec = executor_.kv_spec();
  lives[0].num_computed = num_blocks * spec.block_size;
  const auto& tables = tables_of_.at(source);
  for (size_t group = 0; group < tables.size(); ++group) {
    const int32_t block_size = spec.pool(spec.groups[group].pool()).block_size;
    QUIRE_CHECK(lives[0].num_computed % block_size == 0, "a hit of {} tokens in blocks of {}",
                lives[0].num_computed, block_size);
    lives[0].tables.emplace_back(tables[group].begin(),
                                 tables[group].begin() + lives[0].num_computed / block_size);
  }
  run_all(lives, options);
  return std::move(lives[0].output);
}

}  // namespace quire::test
