// The input is the message of a step from the first rank to the others. It is refused, or decodes
// to a plan whose parts lie within it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "ranks/plan_codec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  (void)quire::decode_adapter_order(bytes).ok();
  (void)quire::decode_adapter_reply(bytes).ok();
  quire::DecodedStep step;
  if (!quire::decode_step(bytes, step).ok()) return 0;
  for (const quire::ScheduledRequest& request : step.plan.scheduled) step.plan.drafts(request);
  // Encoding the decoded plan must give bytes that can be decoded again, to a plan with the same
  // encoding.
  std::vector<std::byte> again, third;
  quire::encode_step(step.before.requests, step.plan, step.adapters, again);
  quire::DecodedStep second;
  if (!quire::decode_step(again, second).ok()) std::abort();
  quire::encode_step(second.before.requests, second.plan, second.adapters, third);
  if (third != again) std::abort();
  return 0;
}
