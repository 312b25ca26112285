// GpuModel is a model on one GPU before its first step: the plan of its memory, and its weights.
#pragma once

#include <algorithm>
#include <memory>

#include "base/threads/thread_team.h"
#include "device/device.h"
#include "exec/gpu/gpu_packing.h"
#include "exec/gpu/gpu_sampling.h"
#include "exec/gpu/gpu_step_inputs.h"
#include "exec/gpu/graphs/graph_dispatcher.h"
#include "exec/gpu/ranks/gpu_ranks.h"
#include "exec/gpu/ranks/gpu_stage_link.h"
#include "exec/model_loading.h"
#include "exec/model_plan.h"
#include "nn/weights/decoder_weights.h"
#include "tensor/arena.h"

namespace quire {

struct GpuRunnerOptions {
  GraphMode graphs = GraphMode::kFull;
  // A kernel may begin while the one before it ends, up to the point where it needs its results.
  bool programmatic_launch = true;
  // Makes the bits of a request independent of its batch (law L4).
  bool deterministic = true;
  bool sample_on_device = true;
  // Whether to use the kernels for warpgroup products where the GPU has them (compute capability
  // 9.0).
  bool warpgroup_products = true;
  // For a rank that computes ModelRunnerOptions::share of the model: its seat in the group, on this
  // device. Borrowed.
  GpuRanks* ranks = nullptr;
  // For a stage of a pipeline (ModelRunnerOptions::stage): its link to the other stages. Borrowed.
  GpuStageLink* link = nullptr;
  // How many runners, this one included, have yet to allocate their memory on this device's GPU.
  int num_on_gpu = 1;

  int steps_in_flight() const {
    return link == nullptr ? kGpuStepsInFlight : std::max(kGpuStepsInFlight, link->num_steps());
  }
};

// Owns the device. One thread at a time may use it.
class GpuModel {
 public:
  // As GpuRunner::create().
  static Result<std::unique_ptr<GpuModel>> load(ModelRunnerOptions options,
                                                const GpuRunnerOptions& gpu_options,
                                                std::unique_ptr<Device> device);
  GpuModel(const GpuModel&) = delete;
  GpuModel& operator=(const GpuModel&) = delete;

  const ModelRunnerOptions& options() const { return options_; }
  const GpuRunnerOptions& gpu_options() const { return gpu_options_; }
  Device& device() { return *device_; }
  ThreadTeam& team() { return team_; }
  const ModelPlan& plan() const { return plan_; }
  const DecoderWeights& weights() const { return *weights_; }
  const GpuPackingCounts& packing() const { return packing_.counts(); }
  const GraphDispatcher& dispatcher() const { return dispatcher_; }

  GpuStepInputs::Shape inputs_shape() const;
  GpuSampling::Shape sampling_shape() const;

 private:
  GpuModel(ModelRunnerOptions options, const GpuRunnerOptions& gpu_options,
           std::unique_ptr<Device> device, ThreadTeam team);
  Status prepare(ModelLoading& loading);
  int64_t step_bytes() const;  // of the hidden states of the largest step
  Status plan_memory(const ModelLoading& loading);
  Status load_weights(const ModelLoading& loading);

  ModelRunnerOptions options_;
  GpuRunnerOptions gpu_options_;
  std::unique_ptr<Device> device_;
  ThreadTeam team_;
  GpuPacking packing_;
  ModelPlan plan_;
  GraphDispatcher dispatcher_;
  std::unique_ptr<DecoderWeights> weights_;
  Arena weight_memory_;
};

}  // namespace quire
