// GpuStepInputs prepares a step's inputs on a GPU. The device stores block tables and last tokens
// by slot, and builds the arrays of each step from the few values that have changed
// (kernels/api/step_inputs.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "core/step.h"
#include "device/device.h"
#include "exec/input_batch.h"
#include "kernels/api/step_inputs.h"
#include "nn/decoder/decoder.h"
#include "tensor/arena.h"

namespace quire {

// The number of steps whose host buffers are in use at once: one runs while the next is prepared. A
// stage of a pipeline has as many as there are stages.
inline constexpr int32_t kGpuStepsInFlight = 2;

// One thread may use it. Consecutive steps use the host buffers in turn: step n + num_staged
// overwrites those of step n, which must be done by then.
class GpuStepInputs {
 public:
  struct Shape {
    DecoderLimits limits;
    int32_t block_size = 16;
    int32_t num_groups = 1;    // KV groups of attention layers
    int64_t max_segments = 0;  // of recurrent states; 0: the model has none
    int32_t num_staged = kGpuStepsInFlight;
    int64_t max_blocks() const { return InputBatch::max_blocks(limits, block_size); }
    int64_t num_table_entries() const { return num_groups * limits.max_reqs * max_blocks(); }
    // Counts padding requests as well: each request has at least one entry.
    int64_t num_segment_entries() const {
      return max_segments == 0 ? 0 : 3 * std::max(max_segments, limits.max_reqs) + 1;
    }
  };
  static int64_t device_bytes(const Shape& shape);
  static int64_t pinned_bytes(const Shape& shape);  // of the host

  GpuStepInputs(const Shape& shape, Device& device, Arena& device_memory, Arena& pinned);

  // Gives new requests their slots and frees those of dropped ones. Must be called for every plan,
  // in order. kInternal: there are more requests than max_reqs.
  Status apply(const StepPlan& plan);
  // Queues the arrays of the plan that `batch` was built from, padded with requests and tokens that
  // compute nothing. The returned pointers are the same for every step. `turn` is the step's number
  // modulo num_staged.
  ForwardInputs build(size_t turn, const StepPlan& plan, const InputBatch& batch,
                      int32_t padded_requests, int64_t padded_tokens);

  int32_t slot(RequestId id) const { return slots_.at(id); }
  TokenId* last_tokens() { return last_tokens_; }  // on the device, [max_reqs] by slot

 private:
  int64_t stage(const StepPlan& plan, const InputBatch& batch, std::byte* to);
  // Queues the batch's segments of states, padded to at least one per request.
  StateSegments place_segments(size_t turn, const InputBatch& batch, int32_t padded_requests);

  Shape shape_;
  Device& device_;
  std::unordered_map<RequestId, int32_t> slots_;
  std::vector<int32_t> free_slots_;
  std::vector<std::byte*> staging_;        // pinned
  std::byte* diff_;                        // the device's copy of one of them
  std::vector<int32_t*> staged_segments_;  // pinned [3, segments] and one more
  int32_t* segments_;                      // the device's copy of one of them
  StepInputsParams params_;
  TokenId* last_tokens_;
  std::vector<KvGroupInputs> groups_;
};

}  // namespace quire
