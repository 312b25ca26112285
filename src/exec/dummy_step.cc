#include "exec/dummy_step.h"

#include <algorithm>
#include <limits>
#include <memory>

namespace quire {

Status execute_dummy(Executor& executor, const DecoderLimits& limits, const KvPlan& kv_plan) {
  const KvSpec kv = executor.kv_spec();
  const auto num_groups = static_cast<int32_t>(kv.groups.size());
  const auto num_tokens = static_cast<int32_t>(
      std::min<int64_t>({kv.block_size, limits.max_tokens, limits.max_seq_len}));
  for (const KvGroupSpec& group : kv.groups) {
    if (kv_plan.count(group.pool()) <= num_groups) return {};
  }
  const RequestId id{std::numeric_limits<uint64_t>::max()};
  StepPlan plan;
  plan.new_requests.push_back(
      {id, std::vector<TokenId>(static_cast<size_t>(num_tokens), 0), num_tokens,
       std::make_shared<SamplingParams>(),
       executor.info().generates ? RequestKind::kGenerate : RequestKind::kPool});
  plan.scheduled.push_back({id, 0, num_tokens});
  plan.total_num_scheduled_tokens = num_tokens;
  for (int32_t group = 0; group < num_groups; ++group) {
    plan.block_updates.push_back({0, group, 0, BlockId{group + 1}});
  }
  QUIRE_RETURN_IF_ERROR(executor.execute(plan).status());
  plan.clear();
  plan.dropped.push_back(id);
  return executor.execute(plan).status();
}

}  // namespace quire
