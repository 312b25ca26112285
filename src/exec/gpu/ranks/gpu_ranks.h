// GpuRanks is the group of ranks that are threads of one process with a GPU each (in tests several
// share one). Every GPU holds a copy of the group's memory. A rank writes its columns of a matrix
// to its own copy, and gather() queues a kernel that stores them to the copies of the others. The
// GPUs wait for each other, while the ranks' threads go on queueing work.
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
  const RankOps* ops = nullptr;  // kernels of these devices
  // How long a GPU waits for another one before the group counts as broken.
  int64_t deadline_ms = 4000;
};

// Borrows its device, and must outlive the work that it has queued there. gather() and the other
// operations on the group's memory are called on the rank's thread and queue work on the device's
// stream, which may be capturing. Once that work is done, status() reports a broken group.
class GpuRanks final : public RankGroup {
 public:
  // Makes one seat per device. kInvalidArgument: there are too many of them, or the GPUs are not
  // alike, so that their products may differ in bits. kUnavailable: the GPUs do not reach each
  // other's memory.
  static Result<std::vector<std::unique_ptr<GpuRanks>>> create(
      std::span<const std::unique_ptr<Device>> devices, const GpuRanksOptions& options);
  ~GpuRanks() override;

  // Allocates memory() of this many bytes, zeroed, and waits until the other ranks have allocated
  // theirs. Every rank calls it once, on its own thread. kResourceExhausted: the GPU has too little
  // memory. kUnavailable: another rank has left.
  Status allocate(int64_t num_bytes);
  // Returns the device memory that allocate() takes.
  static int64_t device_bytes(int64_t num_bytes);
  // Returns whether all ranks passed true. Every rank's thread calls it. A broken group returns
  // false, too.
  bool all(bool mine);

  std::span<std::byte> memory() const override { return {base_, num_bytes_}; }
  bool gather(const GatheredMatrix& matrix) override;
  bool all_to_all(const ExchangedMatrix& matrix) override;
  bool release() override;
  void leave() override;
  Status status() const override;

 private:
  // The state that all ranks of the process share.
  struct Shared;
  GpuRanks(std::shared_ptr<Shared> shared, int rank, Device& device,
           std::unique_ptr<RankGroup> threads);
  // Queues the kernel that stores this rank's part of the matrix at this offset, after it has
  // filled in the rest of `params`. `most_bytes` is the size of the largest part of any rank.
  bool store(int64_t offset_bytes, GatherColumnsParams params, int64_t most_bytes);
  bool is_broken() const;

  std::shared_ptr<Shared> shared_;
  Device& device_;
  std::unique_ptr<RankGroup> threads_;  // where the ranks' threads meet
  Arena arena_;
  std::byte* base_ = nullptr;
  size_t num_bytes_ = 0;
  // By rank: its memory, which lies on its GPU.
  std::array<std::byte*, kMaxGatherRanks> bases_ = {};
  std::array<GatherSignals*, kMaxGatherRanks> signals_ = {};
};

}  // namespace quire
