// GpuStageLink brings hidden states from stage to stage, each of which is a GPU, or several ranks
// (gpu_ranks.h): rank r of a stage gets them from rank r of the stage before. Threads queue a step
// on all stages at the same time, and the GPUs wait for each other (kernels/api/ranks/hand_over.h).
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
  const RankOps* ops = nullptr;  // of the devices
  // How long a stage waits after another has begun a step, before all of them are given up.
  int64_t deadline_ms = 4000;
};

// Borrows its device, and must outlive what is queued there. receive() and send() are of the member's
// thread and queue work on the device's stream, not while it captures; whether somebody is missing
// shows in status() once that work is done.
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
  // Steps that may be under way: whoever begins one more has seen the first of them end everywhere.
  int num_steps() const { return num_stages(); }

  // What allocate() takes of the GPU.
  int64_t device_bytes(int64_t step_bytes) const;
  // Takes memory for hidden states of so many bytes in a step, and waits until the others have
  // theirs. It is called once. kResourceExhausted: the GPU has not so much. kUnavailable: another
  // has left.
  Status allocate(int64_t step_bytes);
  // Every member's thread calls it, and it returns when all have; false says that somebody is
  // missing.
  bool meet();

  // Begins a step: the stage before sends as many bytes, which come to `hidden` on the device. The
  // first stage only says that it begins.
  void receive(float* hidden, int64_t num_bytes);
  // Ends it; of the last stage nothing is wanted.
  void send(const float* hidden, int64_t num_bytes);

  // Tokens go back by the host: bring() lends what the last stage has sampled since the step
  // before, and the next plan of this stage takes it once.
  void bring(const StepResult& sampled) { sampled_ = &sampled; }
  const StepResult* take_sampled() { return std::exchange(sampled_, nullptr); }

  // Nobody waits any longer. Any thread.
  void leave();
  // kUnavailable with the stage that was missing.
  Status status() const;

 private:
  // What all members see.
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
  std::array<HandOverSignals*, kMaxStages> later_ = {};  // of the stages behind this one
  int64_t slot_bytes_ = 0;
  uint32_t number_ = 0;  // of the step
  const StepResult* sampled_ = nullptr;
};

}  // namespace quire
