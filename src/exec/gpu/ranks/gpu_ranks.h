// GpuRanks are ranks that are threads of one process with a GPU each (in tests several share one).
// The memory of the group lies on every GPU once: a rank writes its columns of a matrix to its own
// copy, and gather() queues a kernel that stores them to the copies of the others. Ranks meet on
// their GPUs, while their threads queue further work.
//
//   QUIRE_ASSIGN_OR_RETURN(auto ranks, GpuRanks::create(devices, {.ops = &cuda_rank_ops()}));
//   // Each on its own thread:
//   QUIRE_RETURN_IF_ERROR(ranks[i]->allocate(bytes));
//   write_own_columns(ranks[i]->memory());
//   ranks[i]->gather(matrix);
//   read_all_columns(ranks[i]->memory());
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "comm/rank_group.h"
#include "device/device.h"
#include "kernels/api/ranks/rank_ops.h"
#include "tensor/arena.h"

namespace quire {

struct GpuRanksOptions {
  const RankOps* ops = nullptr;  // of the devices
  // How long a GPU waits for another before the group is broken.
  int64_t deadline_ms = 4000;
};

// Borrows its device, and must outlive what is queued there. gather() and its kin are of the rank's
// thread and queue work on the device's stream, which may be capturing; a broken group shows in
// status() once that work is done.
class GpuRanks final : public RankGroup {
 public:
  // Makes one seat per device. kInvalidArgument: there are too many of them, or the GPUs are not
  // alike, so that their products may differ in bits. kUnavailable: the GPUs do not reach each
  // other's memory.
  static Result<std::vector<std::unique_ptr<GpuRanks>>> create(
      std::span<const std::unique_ptr<Device>> devices, const GpuRanksOptions& options);
  ~GpuRanks() override;

  // Takes memory() for so many bytes, zeroed, and waits until the others have theirs. Once, by every
  // rank on its thread. kResourceExhausted: the GPU has not so much. kUnavailable: another has left.
  Status allocate(int64_t num_bytes);
  // What allocate() takes of the GPU.
  static int64_t device_bytes(int64_t num_bytes);
  // Every rank's thread calls it, and learns whether all of them say true. It is false, too, when
  // the group is broken.
  bool all(bool mine);

  std::span<std::byte> memory() const override { return {base_, num_bytes_}; }
  bool gather(const GatheredMatrix& matrix) override;
  bool all_to_all(const ExchangedMatrix& matrix) override;
  bool release() override;
  void leave() override;
  Status status() const override;

 private:
  // What all ranks of the process see.
  struct Shared;
  GpuRanks(std::shared_ptr<Shared> shared, int rank, Device& device,
           std::unique_ptr<RankGroup> threads);
  // Stores what `params` says of a matrix at this offset, once the rest is filled in; the rank with the
  // most has `most_bytes`.
  bool store(int64_t offset_bytes, GatherColumnsParams params, int64_t most_bytes);
  bool is_broken() const;

  std::shared_ptr<Shared> shared_;
  Device& device_;
  std::unique_ptr<RankGroup> threads_;  // where the ranks' threads meet
  Arena arena_;
  std::byte* base_ = nullptr;
  size_t num_bytes_ = 0;
  // Each rank's memory lies on its GPU.
  std::array<std::byte*, kMaxGatherRanks> bases_ = {};
  std::array<GatherSignals*, kMaxGatherRanks> signals_ = {};
};

}  // namespace quire
