// How often each token occurred in requests with penalties, on the device: what its sampler needs
// to apply them without asking the host.
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

// One thread. A slot counts a request's tokens up to some position: those that the host knows are
// sent, those that the device samples are counted there and never travel.
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

  // Takes the slots of requests that are dropped or sent anew. It is called for every plan, in
  // order.
  void apply(const StepPlan& plan);
  // The slot of a request; -1: none is free.
  int32_t slot(RequestId id);
  // begin_step() comes before the counts of a step are used. Then count_known(), for each of the
  // step's requests, queues the counting of what the host knows of its tokens before `position`;
  // its error is one of the device.
  void begin_step(size_t turn);
  Status count_known(const RequestState& state, int32_t position);
  // The device counts the request's token at `position` itself (count_tokens() of what it sampled).
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
  std::vector<TokenId*> staging_;  // pinned, of steps that take turns
  size_t turn_ = 0;                // this step's
  int64_t num_ids_ = 0;            // of this step
  std::unordered_map<RequestId, Slot> slots_;
  std::vector<int32_t> free_slots_;
};

}  // namespace quire
