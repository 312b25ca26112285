// Plans and sampled tokens as bytes, for ranks in other processes. A rank behind the first samples
// nothing, so what only sampling needs does not travel: of SamplingParams max_tokens and whether
// logits of the prompt are wanted; no token masks, no adapters.
//
// The bytes come from another machine: whatever they are, decoding ends with a plan or an error.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/result.h"
#include "core/kv_spec.h"
#include "core/step.h"

namespace quire {

// What the first rank says to the others at a step: the tokens of the step before, and the plan.
// `out` is cleared first, and keeps its memory.
void encode_step(const StepResult& before, const StepPlan& plan, std::vector<std::byte>& out);

struct DecodedStep {
  StepResult before;  // ids, sampled tokens, and errors without their text
  StepPlan plan;
};
// kDataLoss: the bytes are cut, too many, or hold a count or kind that cannot be.
Status decode_step(std::span<const std::byte> bytes, DecodedStep& out);

void encode_kv_plan(const KvPlan& plan, std::vector<std::byte>& out);
Result<KvPlan> decode_kv_plan(std::span<const std::byte> bytes);

}  // namespace quire
