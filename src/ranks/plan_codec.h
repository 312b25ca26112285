// The codec turns plans and sampled tokens into bytes, for ranks in other processes. A rank behind
// the first samples nothing, so what only sampling needs does not travel: of SamplingParams only
// max_tokens and whether logits of the prompt are wanted do, and token masks do not. Adapters are
// named by number.
//
// The bytes come from another machine: whatever they are, decoding ends with a plan or an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/kv_spec.h"
#include "core/step.h"

namespace quire {

// Encodes what the first rank says to the others at a step: the tokens of the step before, and the
// plan. `out` is cleared first, and keeps its memory. `adapters` has the number of each new
// request's adapter, 0 where it has none; it is empty where none of them has one.
void encode_step(std::span<const RequestStepResult> before, const StepPlan& plan,
                 std::span<const uint64_t> adapters, std::vector<std::byte>& out);

struct DecodedStep {
  StepResult before;  // ids, sampled tokens, and errors without their text
  StepPlan plan;
  std::vector<uint64_t> adapters;  // by new request; 0: none
};
// kDataLoss: the bytes are cut, too many, or hold a count or kind that cannot be.
Status decode_step(std::span<const std::byte> bytes, DecodedStep& out);

// That ranks read the adapter at `path`, and let go all but those that are kept.
struct AdapterOrder {
  uint64_t number = 0;
  std::vector<uint64_t> kept;
  std::string path;
};
void encode_adapter_order(const AdapterOrder& order, std::vector<std::byte>& out);
Result<AdapterOrder> decode_adapter_order(std::span<const std::byte> bytes);

// This is the answer to it: the key of the adapter's content, or an error.
struct AdapterReply {
  StatusCode code = StatusCode::kOk;
  std::string text;
};
void encode_adapter_reply(const AdapterReply& reply, std::vector<std::byte>& out);
Result<AdapterReply> decode_adapter_reply(std::span<const std::byte> bytes);

void encode_kv_plan(const KvPlan& plan, std::vector<std::byte>& out);
Result<KvPlan> decode_kv_plan(std::span<const std::byte> bytes);

}  // namespace quire
