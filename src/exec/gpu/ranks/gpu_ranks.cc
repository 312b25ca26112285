#include "exec/gpu/ranks/gpu_ranks.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "exec/gpu/ranks/thread_seats.h"

namespace quire {
namespace {

// A rank's entry in the memory that the ranks' threads share.
struct Seat {
  std::byte* base = nullptr;
  GatherSignals* signals = nullptr;
  bool says_yes = false;
};

Status check_alike(std::span<const std::unique_ptr<Device>> devices) {
  const DeviceInfo first = devices.front()->info();
  for (const auto& device : devices) {
    const DeviceInfo other = device->info();
    if (other.name == first.name && other.gpu.num_sms == first.gpu.num_sms &&
        other.gpu.compute_capability == first.gpu.compute_capability) {
      continue;
    }
    return invalid_argument(
        "--tensor-parallel-size: expected GPUs of one kind, got {} ({} SMs) and {} ({} SMs)",
        first.name, first.gpu.num_sms, other.name, other.gpu.num_sms);
  }
  return {};
}

}  // namespace

struct GpuRanks::Shared {
  const RankOps* ops = nullptr;
  int64_t deadline_ms = 0;
  Arena pinned;
  uint32_t* missing = nullptr;  // GatherColumnsParams::missing
};

Result<std::vector<std::unique_ptr<GpuRanks>>> GpuRanks::create(
    std::span<const std::unique_ptr<Device>> devices, const GpuRanksOptions& options) {
  const auto num_ranks = static_cast<int>(devices.size());
  if (num_ranks < 1 || num_ranks > kMaxGatherRanks) {
    return invalid_argument("--tensor-parallel-size: expected 1 to {} GPUs, got {}",
                            kMaxGatherRanks, num_ranks);
  }
  QUIRE_RETURN_IF_ERROR(check_alike(devices));
  for (const auto& device : devices) {
    for (const auto& other : devices) QUIRE_RETURN_IF_ERROR(device->reach(*other));
  }
  auto shared = std::make_shared<Shared>();
  shared->ops = options.ops;
  shared->deadline_ms = options.deadline_ms;
  QUIRE_ASSIGN_OR_RETURN(shared->pinned, devices.front()->allocate_pinned(Arena::kAlignment));
  shared->missing = shared->pinned.allocate<uint32_t>(1);
  *shared->missing = 0;
  QUIRE_ASSIGN_OR_RETURN(auto threads, create_seats<Seat>(num_ranks));
  std::vector<std::unique_ptr<GpuRanks>> ranks;
  for (int rank = 0; rank < num_ranks; ++rank) {
    Device& device = *devices[static_cast<size_t>(rank)];
    ranks.emplace_back(
        new GpuRanks(shared, rank, device, std::move(threads[static_cast<size_t>(rank)])));
  }
  return ranks;
}

GpuRanks::GpuRanks(std::shared_ptr<Shared> shared, int rank, Device& device,
                   std::unique_ptr<RankGroup> threads)
    : RankGroup(rank, threads->size()),
      shared_(std::move(shared)),
      device_(device),
      threads_(std::move(threads)) {}

GpuRanks::~GpuRanks() = default;

int64_t GpuRanks::device_bytes(int64_t num_bytes) {
  return Arena::padded(int64_t{sizeof(GatherSignals)}) + Arena::padded(num_bytes);
}

Status GpuRanks::allocate(int64_t num_bytes) {
  QUIRE_ASSIGN_OR_RETURN(arena_, device_.allocate(device_bytes(num_bytes)));
  // The memory must be zeroed before another rank can store a signal in it.
  QUIRE_RETURN_IF_ERROR(device_.synchronize());
  Seat& mine = seats_of<Seat>(*threads_)[rank()];
  mine.signals = arena_.allocate<GatherSignals>(1);
  mine.base = base_ = static_cast<std::byte*>(arena_.allocate_bytes(num_bytes));
  num_bytes_ = static_cast<size_t>(num_bytes);
  if (!threads_->gather({})) return status();
  for (int other = 0; other < size(); ++other) {
    const Seat& seat = seats_of<Seat>(*threads_)[other];
    bases_[static_cast<size_t>(other)] = seat.base;
    signals_[static_cast<size_t>(other)] = seat.signals;
  }
  return {};
}

bool GpuRanks::all(bool mine) {
  Seat* const seats = seats_of<Seat>(*threads_);
  seats[rank()].says_yes = mine;
  if (!threads_->gather({})) return false;
  const bool all =
      std::all_of(seats, seats + size(), [](const Seat& seat) { return seat.says_yes; });
  return threads_->release() && all;
}

bool GpuRanks::gather(const GatheredMatrix& matrix) {
  int64_t most = 0;
  for (const ByteColumns& columns : matrix.columns) most = std::max(most, columns.size());
  const ByteColumns& own = matrix.columns[static_cast<size_t>(rank())];
  return store(matrix.offset_bytes,
               {.row_stride_bytes = matrix.row_stride_bytes,
                .num_rows = matrix.num_rows,
                .begin_bytes = own.begin,
                .end_bytes = own.end},
               most * matrix.num_rows);
}

bool GpuRanks::all_to_all(const ExchangedMatrix& matrix) {
  const MatrixRows& own = matrix.rows[static_cast<size_t>(rank())];
  const int64_t row_bytes = matrix.row_stride_bytes;
  if (matrix.row_numbers == nullptr) {
    // Whole rows go to every rank. They are sent as one long row, of which each rank has a piece.
    int64_t most = 0;
    for (const MatrixRows& rows : matrix.rows) most = std::max(most, rows.size());
    return store(
        matrix.offset_bytes,
        {.num_rows = 1, .begin_bytes = own.begin * row_bytes, .end_bytes = own.end * row_bytes},
        most * row_bytes);
  }
  GatherColumnsParams params{.row_stride_bytes = row_bytes,
                             .num_rows = matrix.num_rows,
                             .row_numbers = matrix.row_numbers,
                             .first_number = static_cast<int32_t>(own.begin),
                             .end_number = static_cast<int32_t>(own.end)};
  for (size_t i = 0; i < static_cast<size_t>(size()); ++i) {
    params.wanted_begin[i] = matrix.columns[i].begin;
    params.wanted_end[i] = matrix.columns[i].end;
  }
  return store(matrix.offset_bytes, params, matrix.num_rows * row_bytes);
}

bool GpuRanks::release() { return store(0, {}, 0); }

bool GpuRanks::store(int64_t offset_bytes, GatherColumnsParams params, int64_t most_bytes) {
  if (is_broken()) return false;
  params.rank = rank();
  params.num_ranks = size();
  params.num_blocks = gather_blocks(most_bytes);
  params.missing = shared_->missing;
  params.deadline_us = shared_->deadline_ms * 1000;
  for (size_t i = 0; i < static_cast<size_t>(size()); ++i) {
    params.matrices[i] = bases_[i] + offset_bytes;
    params.signals[i] = signals_[i];
  }
  shared_->ops->gather_columns(device_.stream(), params);
  return true;
}

bool GpuRanks::is_broken() const {
  return std::atomic_ref(*shared_->missing).load(std::memory_order_acquire) != 0;
}

void GpuRanks::leave() {
  uint32_t nobody = 0;
  std::atomic_ref(*shared_->missing)
      .compare_exchange_strong(nobody, static_cast<uint32_t>(rank()) + 1);
  threads_->leave();
}

Status GpuRanks::status() const {
  const uint32_t missing = std::atomic_ref(*shared_->missing).load(std::memory_order_acquire);
  if (missing == 0) return threads_->status();
  return unavailable("rank {} of {} is gone, or its GPU did not come within {} ms", missing - 1,
                     size(), shared_->deadline_ms);
}

}  // namespace quire
