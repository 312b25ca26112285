#include "comm/process_ranks.h"

#include <optional>
#include <utility>

#include "comm/shared_memory.h"
#include "comm/tcp_ranks.h"

namespace quire {
namespace {

// The kind of frames that say whether all ranks of the group share memory.
constexpr uint32_t kOutcome = 42;

Result<std::unique_ptr<RankGroup>> offer(const SharedSeat& seat, int64_t memory_bytes,
                                         RankTransport transport) {
  std::unique_ptr<RankGroup> group;
  SharedMemoryOffer offered;
  std::optional<SharedMemory> memory;
  if (transport == RankTransport::kFastest) {
    Result<SharedMemory> made = SharedMemory::create(SharedRanks::mapped_bytes(memory_bytes));
    if (made.ok()) memory = *std::move(made);
  }
  if (memory) {
    auto mapped = SharedRanks::map(memory->file_descriptor(), memory_bytes, true, seat);
    if (mapped.ok()) {
      group = std::move(*mapped);
      offered = memory->offer();
    }
  }
  const RankRange others{seat.first + 1, seat.first + seat.size};
  QUIRE_ASSIGN_OR_RETURN(const std::vector<int> users, offer_memory(*seat.links, others, offered));
  const bool all_share = group != nullptr && std::ssize(users) == others.end - others.begin;
  for (int other = others.begin; other < others.end; ++other)
    QUIRE_RETURN_IF_ERROR(send_answer(*seat.links, other, kOutcome, all_share));
  if (!all_share) group.reset();
  return group;
}

Result<std::unique_ptr<RankGroup>> accept(const SharedSeat& seat, int64_t memory_bytes) {
  std::unique_ptr<RankGroup> group;
  const auto map = [&](const SharedMemory& memory) {
    auto mapped = SharedRanks::map(memory.file_descriptor(), memory_bytes, false, seat);
    if (mapped.ok()) group = std::move(*mapped);
    return group != nullptr;
  };
  const Result<bool> uses =
      answer_offer(*seat.links, seat.first, SharedRanks::mapped_bytes(memory_bytes), map);
  QUIRE_RETURN_IF_ERROR(uses.status());
  QUIRE_ASSIGN_OR_RETURN(const bool all_share, receive_answer(*seat.links, seat.first, kOutcome));
  if (!all_share) group.reset();
  return group;
}

}  // namespace

Result<JoinedRanks> join_processes(const SharedSeat& seat, int64_t memory_bytes,
                                   RankTransport transport) {
  const bool is_first = seat.links->rank() == seat.first;
  QUIRE_ASSIGN_OR_RETURN(
      std::unique_ptr<RankGroup> group,
      is_first ? offer(seat, memory_bytes, transport) : accept(seat, memory_bytes));
  if (group != nullptr) return JoinedRanks{std::move(group), RankTransport::kFastest};
  auto ranks = std::make_unique<TcpRanks>(*seat.links, seat.first, seat.size);
  QUIRE_RETURN_IF_ERROR(ranks->allocate(memory_bytes));
  return JoinedRanks{std::move(ranks), RankTransport::kTcp};
}

}  // namespace quire
