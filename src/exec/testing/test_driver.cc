#include "exec/testing/test_driver.h"

#include <algorithm>

namespace quire::test {

bool PlanDriver::Live::done() const {
  return !output.status.ok() ||
         static_cast<int32_t>(output.token_ids.size()) >= request.params.max_tokens;
}

BlockId PlanDriver::take_block() {
  QUIRE_CHECK(next_block_ < num_blocks_, "the test needs more blocks than {}", num_blocks_);
  return BlockId{next_block_++};
}

void PlanDriver::add_to_plan(Live& live, int32_t num_tokens, StepPlan& plan) {
  const KvSpec spec = executor_.kv_spec();
  const RequestId id{live.request.id};
  const auto index = static_cast<int32_t>(plan.scheduled.size());
  const bool first = !live.sent;
  if (first) {
    plan.new_requests.push_back({id, live.token_ids,
                                 static_cast<int32_t>(live.request.prompt.size()),
                                 std::make_shared<SamplingParams>(live.request.params)});
    live.sent = true;
  }
  const int32_t end = live.num_computed + num_tokens;
  const auto needed = static_cast<size_t>((end + spec.block_size - 1) / spec.block_size);
  live.tables.resize(spec.groups.size());
  for (size_t group = 0; group < spec.groups.size(); ++group) {
    auto& table = live.tables[group];
    const size_t known = first ? 0 : table.size();
    while (table.size() < needed) table.push_back(take_block());
    for (size_t i = known; i < table.size(); ++i) {
      plan.block_updates.push_back(
          {index, static_cast<int32_t>(group), static_cast<int32_t>(i), table[i]});
    }
  }
  plan.scheduled.push_back({id, live.num_computed, num_tokens});
  plan.total_num_scheduled_tokens += num_tokens;
}

void PlanDriver::step(std::vector<Live>& lives, const DriverOptions& options) {
  StepPlan plan;
  plan.dropped = std::exchange(dropped_, {});
  std::vector<Live*> scheduled;
  for (Live& live : lives) {
    const auto wanted = static_cast<int32_t>(live.token_ids.size()) - live.num_computed;
    const int32_t left = options.step_tokens - plan.total_num_scheduled_tokens;
    const int32_t granted = std::min({wanted, left, options.chunk});
    if (live.done() || granted <= 0) continue;
    add_to_plan(live, granted, plan);
    scheduled.push_back(&live);
  }
  const Result<StepResult> result = executor_.execute(plan);
  QUIRE_CHECK(result.ok(), "{}", result.status().message());
  for (size_t i = 0; i < scheduled.size(); ++i) {
    Live& live = *scheduled[i];
    const RequestStepResult& one = result->requests[i];
    live.num_computed += plan.scheduled[i].num_scheduled_tokens;
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
  while (std::any_of(lives.begin(), lives.end(), [](const Live& live) { return !live.done(); })) {
    step(lives, options);
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
  lives[0].num_computed = num_blocks * executor_.kv_spec().block_size;
  for (const auto& table : tables_of_.at(source)) {
    lives[0].tables.emplace_back(table.begin(), table.begin() + num_blocks);
  }
  run_all(lives, options);
  return std::move(lives[0].output);
}

}  // namespace quire::test
