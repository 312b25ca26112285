#include "exec/gpu/ranks/gpu_stage_link.h"

#include <atomic>
#include <utility>

#include "exec/gpu/ranks/thread_seats.h"

namespace quire {
namespace {

// A member's entry in the memory that the members' threads share.
struct Seat {
  std::byte* inbox = nullptr;
  HandOverSignals* signals = nullptr;
};

}  // namespace

struct GpuStageLink::Shared {
  GpuStagesOptions options;
  int num_ranks = 1;  // of each stage
  Arena pinned;
  uint32_t* missing = nullptr;  // ReceiveRowsParams::missing
};

Result<std::vector<std::unique_ptr<GpuStageLink>>> GpuStageLink::create(
    std::span<const std::unique_ptr<Device>> devices, const GpuStagesOptions& options) {
  const auto num_members = static_cast<int>(devices.size());
  const bool fits = options.num_stages >= 1 && options.num_stages <= kMaxStages &&
                    num_members <= RankGroup::kMaxRanks;
  if (!fits || num_members < 1 || num_members % options.num_stages != 0) {
    return invalid_argument(
        "--pipeline-parallel-size: expected 1 to {} GPUs, as many for each of {} stages, got {}",
        RankGroup::kMaxRanks, options.num_stages, num_members);
  }
  auto shared = std::make_shared<Shared>();
  shared->options = options;
  shared->num_ranks = num_members / options.num_stages;
  // A rank stores hidden states to the next stage, and to all later stages the signal that a step
  // has begun.
  for (int member = 0; member < num_members; ++member) {
    for (int later = member + shared->num_ranks; later < num_members; later += shared->num_ranks) {
      QUIRE_RETURN_IF_ERROR(
          devices[static_cast<size_t>(member)]->reach(*devices[static_cast<size_t>(later)]));
    }
  }
  QUIRE_ASSIGN_OR_RETURN(shared->pinned, devices.front()->allocate_pinned(Arena::kAlignment));
  shared->missing = shared->pinned.allocate<uint32_t>(1);
  *shared->missing = 0;
  QUIRE_ASSIGN_OR_RETURN(auto threads, create_seats<Seat>(num_members));
  std::vector<std::unique_ptr<GpuStageLink>> links;
  for (int member = 0; member < num_members; ++member) {
    const auto at = static_cast<size_t>(member);
    links.emplace_back(new GpuStageLink(shared, member, *devices[at], std::move(threads[at])));
  }
  return links;
}

GpuStageLink::GpuStageLink(std::shared_ptr<Shared> shared, int member, Device& device,
                           std::unique_ptr<RankGroup> threads)
    : shared_(std::move(shared)),
      member_(member),
      stage_(member / shared_->num_ranks),
      device_(device),
      threads_(std::move(threads)) {}

GpuStageLink::~GpuStageLink() = default;

int GpuStageLink::num_stages() const { return shared_->options.num_stages; }

int64_t GpuStageLink::device_bytes(int64_t step_bytes) const {
  return Arena::padded(int64_t{sizeof(HandOverSignals)}) + num_slots() * Arena::padded(step_bytes);
}

Status GpuStageLink::allocate(int64_t step_bytes) {
  QUIRE_ASSIGN_OR_RETURN(arena_, device_.allocate(device_bytes(step_bytes)));
  // The memory must be zeroed before another member can store a signal in it.
  QUIRE_RETURN_IF_ERROR(device_.synchronize());
  slot_bytes_ = Arena::padded(step_bytes);
  Seat& mine = seats_of<Seat>(*threads_)[member_];
  mine.signals = signals_ = arena_.allocate<HandOverSignals>(1);
  mine.inbox = inbox_ = static_cast<std::byte*>(arena_.allocate_bytes(num_slots() * slot_bytes_));
  if (!meet()) return status();
  if (is_last()) return {};
  next_inbox_ = seats_of<Seat>(*threads_)[member_ + shared_->num_ranks].inbox;
  for (int later = stage_ + 1; later < num_stages(); ++later) {
    later_[static_cast<size_t>(later - stage_ - 1)] =
        seats_of<Seat>(*threads_)[member_ + (later - stage_) * shared_->num_ranks].signals;
  }
  return {};
}

bool GpuStageLink::meet() { return threads_->release(); }

void GpuStageLink::receive(float* hidden, int64_t num_bytes) {
  if (is_broken()) return;
  ++number_;
  ReceiveRowsParams params{.stage = stage_,
                           .inbox = slot(inbox_),
                           .rows = reinterpret_cast<std::byte*>(hidden),
                           .signals = signals_,
                           .num_bytes = num_bytes,
                           .num_blocks = stage_ == 0 ? 1 : hand_over_blocks(num_bytes),
                           .number = number_,
                           .num_later = num_stages() - 1 - stage_,
                           .missing = shared_->missing,
                           .deadline_us = shared_->options.deadline_ms * 1000};
  for (size_t i = 0; i < static_cast<size_t>(params.num_later); ++i) params.later[i] = later_[i];
  shared_->options.ops->receive_rows(device_.stream(), params);
}

void GpuStageLink::send(const float* hidden, int64_t num_bytes) {
  if (is_last() || is_broken()) return;
  shared_->options.ops->send_rows(device_.stream(),
                                  {.rows = reinterpret_cast<const std::byte*>(hidden),
                                   .inbox = slot(next_inbox_),
                                   .signals = later_.front(),
                                   .num_bytes = num_bytes,
                                   .num_blocks = hand_over_blocks(num_bytes),
                                   .number = number_});
}

bool GpuStageLink::is_broken() const {
  return std::atomic_ref(*shared_->missing).load(std::memory_order_acquire) != 0;
}

void GpuStageLink::leave() {
  uint32_t nobody = 0;
  std::atomic_ref(*shared_->missing)
      .compare_exchange_strong(nobody, static_cast<uint32_t>(stage_) + 1);
  threads_->leave();
}

Status GpuStageLink::status() const {
  const uint32_t missing = std::atomic_ref(*shared_->missing).load(std::memory_order_acquire);
  if (missing == 0) return threads_->status();
  return unavailable("stage {} of {} is gone, or its GPU did not come within {} ms", missing - 1,
                     num_stages(), shared_->options.deadline_ms);
}

}  // namespace quire
