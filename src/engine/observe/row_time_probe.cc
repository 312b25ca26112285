#include "engine/observe/row_time_probe.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace quire {
namespace {

constexpr int32_t kRows[] = {1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64};
constexpr int kRounds = 5;
// The most time spent on one count. Slow steps are measured less often, since noise disturbs them
// less.
constexpr int64_t kMostUsOfACount = 80'000;
constexpr int64_t kMostUs = 1'000'000;

// Makes a plan of one request with one known token and drafts behind it, in blocks of its own.
StepPlan verification(RequestId id, uint64_t step_id, int32_t num_rows, const KvSpec& kv,
                      int32_t vocab_size) {
  StepPlan plan;
  plan.step_id = step_id;
  auto params = std::make_shared<SamplingParams>();
  params->temperature = 0;
  plan.new_requests.push_back(
      {.id = id, .token_ids = {0}, .num_prompt_tokens = 1, .params = std::move(params)});
  plan.scheduled.push_back(
      {.id = id, .num_scheduled_tokens = num_rows, .num_drafts = num_rows - 1});
  for (int32_t i = 1; i < num_rows; ++i)
    plan.draft_token_ids.push_back(static_cast<TokenId>(i * 7919 % vocab_size));
  plan.total_num_scheduled_tokens = num_rows;
  const auto num_groups = static_cast<int32_t>(kv.groups.size());
  for (int32_t i = 0; i * kv.block_size < num_rows; ++i) {
    for (int32_t group = 0; group < num_groups; ++group)
      plan.block_updates.push_back({0, group, i, BlockId{1 + i * num_groups + group}});
  }
  return plan;
}

// Returns the time of one such step; 0: it failed.
int64_t run(Executor& executor, StepPlan& plan, const Clock& clock) {
  const int64_t begin = clock.now_us();
  const Result<StepResult> result = executor.execute(plan);
  const int64_t us = clock.now_us() - begin;
  --plan.step_id;
  // The next step starts the same request again.
  plan.dropped = {plan.scheduled[0].id};
  return result.ok() && result->requests[0].status.ok() ? us : 0;
}

}  // namespace

RowTimes measure_row_times(Executor& executor, const KvPlan& kv_plan, int32_t max_rows,
                           const Clock& clock) {
  const KvSpec kv = executor.kv_spec();
  const ExecutorInfo info = executor.info();
  const RequestId id{std::numeric_limits<uint64_t>::max()};
  const auto num_groups = static_cast<int32_t>(kv.groups.size());
  max_rows = std::min({max_rows, info.max_model_len,
                       (kv_plan.num_blocks - 1) / std::max(1, num_groups) * kv.block_size});
  std::vector<RowTimes::Point> points;
  std::vector<RequestId> dropped;
  // Step ids count down from here; no other step has such ids.
  uint64_t step_id = std::numeric_limits<uint64_t>::max() / 2;
  const int64_t begin = clock.now_us();
  for (const int32_t num_rows : kRows) {
    if (num_rows > max_rows || (points.size() > 4 && clock.now_us() - begin > kMostUs)) break;
    StepPlan plan = verification(id, step_id, num_rows, kv, info.vocab_size);
    plan.dropped = std::exchange(dropped, {id});
    int64_t best = std::numeric_limits<int64_t>::max();
    bool failed = false;
    int64_t spent = 0;
    for (int round = 0; round < kRounds && spent < kMostUsOfACount && !failed; ++round) {
      const int64_t us = run(executor, plan, clock);
      failed = us <= 0;
      best = std::min(best, us);
      spent += us;
    }
    step_id = plan.step_id;
    if (failed) {
      points.clear();
      break;
    }
    points.push_back({num_rows, static_cast<double>(best)});
  }
  if (!dropped.empty()) {
    StepPlan plan;
    plan.dropped = std::move(dropped);
    if (const Status status = executor.execute(plan).status(); !status.ok()) return {};
  }
  Result<RowTimes> times = RowTimes::create(std::move(points));
  return times.ok() ? std::move(*times) : RowTimes();
}

}  // namespace quire
