// GpuSteps holds the steps that a GPU has under way, from submit() to collect().
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
  std::unique_ptr<Event> event;  // everything of the step is done
  StepResult result;
  StepTimings timings;
  Status status;
  int64_t start_us = 0;
  bool on_device = false;  // the device samples; else the host, once the logits are there
  size_t turn = 0;         // which of the staging buffers are its own
  bool is_done = false;    // result and status are final
};

// This is a ring of steps, with the memory of results that came back. One thread at a time may use
// it.
class GpuSteps {
 public:
  using Events = std::vector<std::unique_ptr<Event>>;  // one per step that may be under way
  GpuSteps(const DecoderLimits& limits, const KvSpec& kv, Events events);

  int64_t num_under_way() const { return num_submitted_ - num_collected_; }
  bool is_full() const { return num_under_way() == std::ssize(steps_); }
  // Returns the step that push() submits next, begun anew.
  GpuStep& start(uint64_t step_id, int64_t now_us);
  void push() { ++num_submitted_; }
  // newest() is the last step that was submitted; pop() collects the first one.
  GpuStep& newest() { return at(num_submitted_ - 1); }
  GpuStep& pop() { return at(num_collected_++); }
  // For work while no step is under way.
  InputBatch& idle_batch() { return *steps_.front().batch; }

  // Takes the memory of a result whose step was collected.
  void recycle(StepResult&& result);

 private:
  GpuStep& at(int64_t number) { return steps_[static_cast<size_t>(number % std::ssize(steps_))]; }

  std::vector<GpuStep> steps_;  // step n: n modulo the size
  std::vector<std::vector<RequestStepResult>> spare_results_;
  int64_t num_submitted_ = 0;
  int64_t num_collected_ = 0;
};

}  // namespace quire
