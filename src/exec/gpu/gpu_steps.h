// GpuSteps holds the steps that are queued or running on a GPU, from submit() to collect().
#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <vector>

#include "core/step.h"
#include "device/device.h"
#include "exec/gpu/gpu_step_inputs.h"
#include "exec/input_batch.h"

namespace quire {

struct GpuStep {
  std::unique_ptr<InputBatch> batch;
  std::unique_ptr<Event> event;  // reached when everything of the step is done
  StepResult result;
  StepTimings timings;
  Status status;
  int64_t start_us = 0;
  bool on_device = false;  // the device samples; else the host samples once it has the logits
  size_t turn = 0;         // selects the staging buffers of the step
  bool is_done = false;    // result and status are final
};

// A ring of steps, which reuses the memory of results that were returned. One thread at a time may
// use it.
class GpuSteps {
 public:
  using Events = std::vector<std::unique_ptr<Event>>;  // one per step that may be under way
  GpuSteps(const DecoderLimits& limits, const KvSpec& kv, Events events);

  int64_t num_under_way() const { return num_submitted_ - num_collected_; }
  bool is_full() const { return num_under_way() == std::ssize(steps_); }
  // Resets the step that push() will submit next, and returns it.
  GpuStep& start(uint64_t step_id, int64_t now_us);
  void push() { ++num_submitted_; }
  // newest() is the step that was submitted last; pop() removes the one that was submitted first.
  GpuStep& newest() { return at(num_submitted_ - 1); }
  GpuStep& pop() { return at(num_collected_++); }
  // A batch for work while no step is under way.
  InputBatch& idle_batch() { return *steps_.front().batch; }

  // Reuses the memory of a result whose step was collected.
  void recycle(StepResult&& result);

 private:
  GpuStep& at(int64_t number) { return steps_[static_cast<size_t>(number % std::ssize(steps_))]; }

  std::vector<GpuStep> steps_;  // step n lies at n modulo the size
  std::vector<std::vector<RequestStepResult>> spare_results_;
  int64_t num_submitted_ = 0;
  int64_t num_collected_ = 0;
};

}  // namespace quire
