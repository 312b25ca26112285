#include "comm/shared_ranks.h"

#include <sys/mman.h>

#include <atomic>
#include <new>
#include <utility>

#include "base/clock.h"
#include "base/threads/spins.h"
#include "comm/shared_word.h"

namespace quire {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr uint32_t kNobody = ~uint32_t{0};

struct Header {
  std::atomic<uint32_t> missing{kNobody};         // the first rank that was found missing
  SharedWord num_meetings[RankGroup::kMaxRanks];  // by rank: meetings it has reached
};

size_t header_bytes() { return (sizeof(Header) + kPageBytes - 1) / kPageBytes * kPageBytes; }

}  // namespace

// The mapping holds the header, then the shared bytes.
struct SharedRanks::Region {
  Region(std::byte* memory, size_t num_bytes, int ranks, bool begins)
      : bytes(memory, num_bytes),
        header(begins ? new (memory) Header : reinterpret_cast<Header*>(memory)),
        num_ranks(ranks),
        num_spins(spins_before_sleep(ranks)) {}
  ~Region() { ::munmap(bytes.data(), bytes.size()); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  std::span<std::byte> bytes;
  Header* header;
  int num_ranks;
  int num_spins;
};

Result<std::vector<std::unique_ptr<RankGroup>>> SharedRanks::create(
    int num_ranks, const SharedRanksOptions& options) {
  if (num_ranks < 1 || num_ranks > kMaxRanks) {
    return invalid_argument("ranks: expected a number in [1, {}], got {}", kMaxRanks, num_ranks);
  }
  const auto num_bytes = static_cast<size_t>(mapped_bytes(options.memory_bytes));
  void* memory = ::mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return resource_exhausted("ranks: no {} bytes of memory to share", num_bytes);
  }
  auto region =
      std::make_shared<Region>(static_cast<std::byte*>(memory), num_bytes, num_ranks, true);
  std::vector<std::unique_ptr<RankGroup>> ranks;
  ranks.reserve(static_cast<size_t>(num_ranks));
  for (int rank = 0; rank < num_ranks; ++rank)
    ranks.emplace_back(new SharedRanks(region, rank, options.deadline_ms, {}));
  return ranks;
}

int64_t SharedRanks::mapped_bytes(int64_t memory_bytes) {
  return static_cast<int64_t>(header_bytes()) + memory_bytes;
}

Result<std::unique_ptr<RankGroup>> SharedRanks::map(int file_descriptor, int64_t memory_bytes,
                                                    bool begins, const SharedSeat& seat) {
  const auto num_bytes = static_cast<size_t>(mapped_bytes(memory_bytes));
  void* memory = ::mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_descriptor, 0);
  if (memory == MAP_FAILED)
    return resource_exhausted("ranks: {} bytes of shared memory cannot be mapped", num_bytes);
  auto region =
      std::make_shared<Region>(static_cast<std::byte*>(memory), num_bytes, seat.size, begins);
  return std::unique_ptr<RankGroup>(new SharedRanks(
      std::move(region), seat.links->rank() - seat.first, seat.links->deadline_ms(), seat));
}

SharedRanks::SharedRanks(std::shared_ptr<Region> region, int rank, int64_t deadline_ms,
                         SharedSeat seat)
    : RankGroup(rank, region->num_ranks),
      region_(std::move(region)),
      deadline_ms_(deadline_ms),
      seat_(seat) {}

SharedRanks::~SharedRanks() = default;

std::span<std::byte> SharedRanks::memory() const { return region_->bytes.subspan(header_bytes()); }

bool SharedRanks::meet() {
  Header& header = *region_->header;
  if (is_broken()) return false;
  header.num_meetings[rank()].raise(++num_meetings_);
  for (int other = 0; other < size(); ++other) {
    if (other != rank() && !wait_for(other)) return false;
  }
  return true;
}

bool SharedRanks::is_broken() const {
  return region_->header->missing.load(std::memory_order_acquire) != kNobody ||
         (seat_.links != nullptr && !seat_.links->status().ok());
}

void SharedRanks::break_at(int other) {
  uint32_t nobody = kNobody;
  region_->header->missing.compare_exchange_strong(nobody, static_cast<uint32_t>(other));
  if (seat_.links == nullptr) return;
  seat_.links->break_at(seat_.first + other, fmt::format("no answer within {} ms", deadline_ms_));
}

bool SharedRanks::wait_for(int other) {
  SharedWord& theirs = region_->header->num_meetings[other];
  if (theirs.spin(num_meetings_, region_->num_spins)) return true;
  const SteadyClock clock;
  const int64_t deadline_us = clock.now_us() + deadline_ms_ * 1000;
  return theirs.sleep(num_meetings_, [&] {
    if (is_broken()) return false;
    if (clock.now_us() <= deadline_us) return true;
    break_at(other);
    return false;
  });
}

void SharedRanks::leave() {
  Header& header = *region_->header;
  uint32_t nobody = kNobody;
  header.missing.compare_exchange_strong(nobody, static_cast<uint32_t>(rank()));
  for (SharedWord& word : header.num_meetings) word.wake();
  if (seat_.links != nullptr) seat_.links->leave();
}

Status SharedRanks::status() const {
  if (seat_.links != nullptr) QUIRE_RETURN_IF_ERROR(seat_.links->status());
  const uint32_t missing = region_->header->missing.load(std::memory_order_acquire);
  if (missing == kNobody) return {};
  return unavailable("rank {} of {} is gone or did not answer within {} ms", missing, size(),
                     deadline_ms_);
}

}  // namespace quire
