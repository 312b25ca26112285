// GpuTokenCounts counts on the device how often each token occurred in requests with penalties, so
// that the device's sampler can apply the penalties without the host.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "core/step.h"
#include "device/device.h"
#include "exec/gpu/gpu_step_inputs.h"
#include "exec/request_table.h"
#include "kernels/api/sampling.h"
#include "tensor/arena.h"

namespace quire {

// One thread may use it. A slot counts the tokens of one request up to some position. Tokens that
// the host knows are sent to the device; tokens that the device samples are counted there and never
// sent.
class GpuTokenCounts {
 public:
  struct Shape {
    int64_t max_requests = 0;
    int64_t vocab_size = 0;
    int32_t num_staged = kGpuStepsInFlight;
    int64_t num_slots() const;
  };
  static int64_t device_bytes(const Shape& shape);
  static int64_t pinned_bytes(int32_t num_staged);

  GpuTokenCounts(const Shape& shape, Device& device, Arena& device_memory, Arena& pinned);

  // Frees the slots of requests that are dropped or sent again. Must be called for every plan, in
  // order.
  void apply(const StepPlan& plan);
  // Returns the slot of a request; -1 if none is free.
  int32_t slot(RequestId id);
  // begin_step() comes before a step uses the counts. Then count_known() is called for each request
  // of the step and queues the counting of those of its tokens before `position` that the host
  // knows; it fails with the device's error.
  void begin_step(size_t turn);
  Status count_known(const RequestState& state, int32_t position);
  // Notes that the device itself counts the request's token at `position` (count_tokens() of what
  // it sampled).
  void counted_on_device(RequestId id, int32_t position);

  uint32_t* counts() const { return counts_; }  // [slots, V] on the device

 private:
  struct Slot {
    int32_t index = 0;
    int32_t num_counted = 0;  // tokens of the request
  };
  Status send(const Slot& slot, const TokenId* ids, int64_t count, bool in_prompt);

  Shape shape_;
  Device& device_;
  uint32_t* counts_;
  TokenId* ids_on_device_;
  std::vector<TokenId*> staging_;  // pinned, used by steps in turn
  size_t turn_ = 0;                // of the current step
  int64_t num_ids_ = 0;            // of the current step
  std::unordered_map<RequestId, Slot> slots_;
  std::vector<int32_t> free_slots_;
};

}  // namespace quire
