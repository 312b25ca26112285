// GpuSampling computes the logits, tokens and logprobs of a step's sampled rows on the GPU, and
// copies tokens and logprobs alone to the host. The tokens also stay on the device, as the next
// step's inputs.
#pragma once

#include <cstdint>
#include <vector>

#include "core/step.h"
#include "device/device.h"
#include "exec/gpu/gpu_step_inputs.h"
#include "exec/gpu/gpu_token_counts.h"
#include "exec/input_batch.h"
#include "kernels/api/sampling.h"
#include "nn/decoder/decoder.h"
#include "sample/device_rows.h"
#include "tensor/arena.h"

namespace quire {

// One thread at a time may use it. Like GpuStepInputs it has host buffers for several steps, which
// consecutive steps use in turn.
class GpuSampling {
 public:
  struct Shape {
    int64_t max_requests = 0;
    int64_t max_rows = 0;        // of a step; the host samples steps with more
    int64_t max_logit_rows = 0;  // computed at once
    int64_t vocab_size = 0;
    int32_t num_staged = kGpuStepsInFlight;
  };
  static int64_t device_bytes(const Shape& shape);  // beside the memory of `logits`
  static int64_t pinned_bytes(const Shape& shape);

  // `logits` [max_logit_rows, V] lie on the device and are borrowed.
  GpuSampling(const Shape& shape, float* logits, Device& device, Arena& device_memory,
              Arena& pinned);

  // Must be called for every plan, in order.
  void apply(const StepPlan& plan) { counts_.apply(plan); }
  // Returns whether the device can sample every row of the batch. It cannot with long lists of
  // tokens, more than kMaxLogprobs alternatives, more than max_rows rows, penalties of more
  // requests than it has memory to count for, or drafts of requests whose logits depend on their
  // tokens.
  bool takes(const InputBatch& batch);
  // Queues the logits and the sampling of the batch that takes() was last called with. The results
  // are on the host when the device has reached this point. `turn` is the step's number modulo
  // num_staged, for run() and store() alike.
  Status run(size_t turn, const StepPlan& plan, const InputBatch& batch, Decoder& decoder,
             GpuStepInputs& inputs);
  // Writes the outcome of each row into the requests' state and the results of the step.
  void store(size_t turn, const InputBatch& batch, std::vector<RequestStepResult>& results);

  static constexpr int32_t kMaxLogprobs = 20;
  static constexpr int64_t kListBytes = int64_t{4} << 20;

 private:
  // One step's buffers in pinned memory: `sent` goes to the device, the others come back from it.
  struct Staging {
    std::byte* sent = nullptr;
    SampledToken* tokens = nullptr;  // [max_rows]
    TokenId* top_ids = nullptr;      // [max_rows, kMaxLogprobs]
    float* top_logprobs = nullptr;   // [max_rows, kMaxLogprobs]
  };
  template <typename T>
  const T* send(const Staging& staging, const std::vector<T>& values, int64_t& offset);
  bool add_row(const LogitsRow& row, const InputBatch& batch);
  Status count_known_tokens(size_t turn, const InputBatch& batch);
  int64_t list_bytes() const;
  int32_t num_logprobs(const LogitsRow& row, const RequestState& state) const;

  Shape shape_;
  float* logits_;
  Device& device_;
  std::vector<Staging> staging_;
  std::byte* sent_;  // on the device
  SampleRowsParams params_;
  DeviceRows rows_;
  std::vector<int32_t> tokens_;       // rows of the flattened batch
  std::vector<int32_t> slots_;        // of requests that sample; -1: a row for logprobs only
  std::vector<int32_t> count_slots_;  // of rows that sample with penalties; else -1
  bool has_logprobs_ = false;
  bool has_penalties_ = false;
  GpuTokenCounts counts_;
};

}  // namespace quire
