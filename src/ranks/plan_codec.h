// Encodes plans and sampled tokens as bytes, for ranks in other processes. Only the first rank
// samples, so what only sampling needs is not encoded: SamplingParams are reduced to max_tokens and
// whether logits of the prompt are wanted, and token masks are left out. Adapters are named by
// number.
//
// The bytes come from another machine. Whatever they are, decoding returns a plan or an error.
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

// Encodes what the first rank sends to the others at a step: the tokens of the step before, and the
// plan. `out` is cleared first, and keeps its memory. `adapters` has the number of each new
// request's adapter, or 0 where it has none; it is empty where no request has one.
void encode_step(std::span<const RequestStepResult> before, const StepPlan& plan,
                 std::span<const uint64_t> adapters, std::vector<std::byte>& out);

struct DecodedStep {
  StepResult before;  // ids, sampled tokens, and errors without their text
  StepPlan plan;
  std::vector<uint64_t> adapters;  // by new request; 0: none
};
// kDataLoss: the bytes are cut short, too many, or contain an impossible count or kind.
Status decode_step(std::span<const std::byte> bytes, DecodedStep& out);

// Tells ranks to read the adapter at `path` as `number`, and to free all others except `kept`.
struct AdapterOrder {
  uint64_t number = 0;
  std::vector<uint64_t> kept;
  std::string path;
};
void encode_adapter_order(const AdapterOrder& order, std::vector<std::byte>& out);
Result<AdapterOrder> decode_adapter_order(std::span<const std::byte> bytes);

// The answer to an AdapterOrder: the key of the adapter's content, or an error and its text.
struct AdapterReply {
  StatusCode code = StatusCode::kOk;
  std::string text;
};
void encode_adapter_reply(const AdapterReply& reply, std::vector<std::byte>& out);
Result<AdapterReply> decode_adapter_reply(std::span<const std::byte> bytes);

void encode_kv_plan(const KvPlan& plan, std::vector<std::byte>& out);
Result<KvPlan> decode_kv_plan(std::span<const std::byte> bytes);

}  // namespace quire
