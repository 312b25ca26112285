// GpuStageLink copies hidden states from one stage of a pipeline to the next. A stage is one GPU or
// several ranks (gpu_ranks.h): rank r of a stage receives from rank r of the stage before. The
// threads of all stages queue a step at the same time, and the GPUs wait for each other
// (kernels/api/ranks/hand_over.h).
//
//   QUIRE_ASSIGN_OR_RETURN(auto links, GpuStageLink::create(devices, {.num_stages = 2, .ops = …}));
//   // Each on its own thread:
//   QUIRE_RETURN_IF_ERROR(links[i]->allocate(step_bytes));
//   links[i]->receive(hidden, num_bytes);
//   compute(hidden);
//   links[i]->send(hidden, num_bytes);
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "comm/rank_group.h"
#include "core/step.h"
#include "device/device.h"
#include "kernels/api/ranks/rank_ops.h"
#include "tensor/arena.h"

namespace quire {

struct GpuStagesOptions {
  int num_stages = 1;
  const RankOps* ops = nullptr;  // kernels of these devices
  // How long a stage waits, once another has begun a step, before the whole pipeline counts as
  // broken.
  int64_t deadline_ms = 4000;
};

// Borrows its device, and must outlive the work that it has queued there. receive() and send() are
// called on the member's thread and queue work on the device's stream, which must not be capturing.
// Once that work is done, status() reports a missing member.
class GpuStageLink {
 public:
  // Makes one link per device: all ranks of the first stage come first, then those of the next.
  // kInvalidArgument: the stages have different numbers of ranks, or there are too many of them.
  // kUnavailable: the GPUs do not reach each other's memory.
  static Result<std::vector<std::unique_ptr<GpuStageLink>>> create(
      std::span<const std::unique_ptr<Device>> devices, const GpuStagesOptions& options);
  ~GpuStageLink();
  GpuStageLink(const GpuStageLink&) = delete;
  GpuStageLink& operator=(const GpuStageLink&) = delete;

  int stage() const { return stage_; }
  int num_stages() const;
  bool is_last() const { return stage_ + 1 == num_stages(); }
  // Returns how many steps may be under way: a stage begins another one only when the first of them
  // has ended on all stages.
  int num_steps() const { return num_stages(); }

  // Returns the device memory that allocate() takes.
  int64_t device_bytes(int64_t step_bytes) const;
  // Allocates memory for `step_bytes` of hidden states per step, and waits until the other members
  // have allocated theirs. Called once. kResourceExhausted: the GPU has too little memory.
  // kUnavailable: another member has left.
  Status allocate(int64_t step_bytes);
  // Waits until every member's thread has called it; returns false if a member is missing.
  bool meet();

  // Begins a step: queues the wait for `num_bytes` of hidden states from the stage before, which
  // are copied to `hidden` on the device. The first stage receives nothing and only announces the
  // step.
  void receive(float* hidden, int64_t num_bytes);
  // Ends the step: queues the copy of `hidden` to the next stage. The last stage copies nothing.
  void send(const float* hidden, int64_t num_bytes);

  // Sampled tokens go back to earlier stages through the host. lend_sampled() lends this stage what
  // the last stage has sampled since the step before, and take_sampled() returns it once, for the
  // next plan.
  void lend_sampled(const StepResult& sampled) { sampled_ = &sampled; }
  const StepResult* take_sampled() { return std::exchange(sampled_, nullptr); }

  // Releases every member that waits. Any thread may call it.
  void leave();
  // kUnavailable names the stage that was missing.
  Status status() const;

 private:
  // The state that all members share.
  struct Shared;
  GpuStageLink(std::shared_ptr<Shared> shared, int member, Device& device,
               std::unique_ptr<RankGroup> threads);
  bool is_broken() const;
  int64_t num_slots() const { return stage_ == 0 ? 0 : num_steps(); }
  std::byte* slot(std::byte* inbox) const { return inbox + number_ % num_steps() * slot_bytes_; }

  std::shared_ptr<Shared> shared_;
  int member_;
  int stage_;
  Device& device_;
  std::unique_ptr<RankGroup> threads_;  // where the members' threads meet
  Arena arena_;
  std::byte* inbox_ = nullptr;  // [num_slots, slot_bytes]
  HandOverSignals* signals_ = nullptr;
  std::byte* next_inbox_ = nullptr;
  std::array<HandOverSignals*, kMaxStages> later_ = {};  // signals of all later stages
  int64_t slot_bytes_ = 0;
  uint32_t number_ = 0;  // of the current step
  const StepResult* sampled_ = nullptr;
};

}  // namespace quire
