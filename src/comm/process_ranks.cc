#include "comm/process_ranks.h"

#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "comm/shared_memory.h"
#include "comm/socket.h"
#include "comm/tcp_ranks.h"

namespace quire {
namespace {

// Kinds of frames while memory is shared.
enum : uint32_t { kOffer = 40, kReply = 41, kOutcome = 42 };

Result<Frame> receive(const SharedSeat& seat, int other, uint32_t kind) {
  Frame frame;
  // The others may still plan their memory; whether they live, the links know.
  const Status status = receive_frame(seat.links->data(other), frame, 0);
  if (!status.ok()) {
    seat.links->break_at(other, status.message());
    return seat.links->status();
  }
  if (frame.kind != kind)
    return data_loss("rank {} sent a frame of kind {}, expected {}", other, frame.kind, kind);
  return frame;
}

Status send(const SharedSeat& seat, int other, uint32_t kind, std::span<const std::byte> payload) {
  return send_frame(seat.links->data(other), kind, payload,
                    deadline_in_ms(seat.links->deadline_ms()));
}

// Yes is a byte, no is none.
Status send_answer(const SharedSeat& seat, int other, uint32_t kind, bool is_yes) {
  const std::byte yes{1};
  return send(seat, other, kind, std::span(&yes, is_yes ? 1 : 0));
}

bool is_yes(const Frame& frame) { return frame.payload.size() == 1; }

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
  const int first = seat.first, end = seat.first + seat.size;
  for (int other = first + 1; other < end; ++other)
    QUIRE_RETURN_IF_ERROR(send(seat, other, kOffer, std::as_bytes(std::span(&offered, 1))));
  bool all_share = group != nullptr;
  for (int other = first + 1; other < end; ++other) {
    QUIRE_ASSIGN_OR_RETURN(const Frame reply, receive(seat, other, kReply));
    all_share &= is_yes(reply);
  }
  for (int other = first + 1; other < end; ++other)
    QUIRE_RETURN_IF_ERROR(send_answer(seat, other, kOutcome, all_share));
  if (!all_share) group.reset();
  return group;
}

Result<std::unique_ptr<RankGroup>> accept(const SharedSeat& seat, int64_t memory_bytes) {
  QUIRE_ASSIGN_OR_RETURN(const Frame frame, receive(seat, seat.first, kOffer));
  SharedMemoryOffer offered;
  if (frame.payload.size() != sizeof(offered))
    return data_loss("rank {} offers memory in {} bytes, expected {}", seat.first,
                     frame.payload.size(), sizeof(offered));
  std::memcpy(&offered, frame.payload.data(), sizeof(offered));
  std::unique_ptr<RankGroup> group;
  if (offered.process > 0 && offered.num_bytes == SharedRanks::mapped_bytes(memory_bytes)) {
    const Result<SharedMemory> memory = SharedMemory::open(offered);
    if (memory.ok()) {
      auto mapped = SharedRanks::map(memory->file_descriptor(), memory_bytes, false, seat);
      if (mapped.ok()) group = std::move(*mapped);
    }
  }
  QUIRE_RETURN_IF_ERROR(send_answer(seat, seat.first, kReply, group != nullptr));
  QUIRE_ASSIGN_OR_RETURN(const Frame outcome, receive(seat, seat.first, kOutcome));
  if (!is_yes(outcome)) group.reset();
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
