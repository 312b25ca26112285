#include "comm/memory_offers.h"

#include <cstring>
#include <span>
#include <utility>

#include "comm/socket.h"

namespace quire {
namespace {

// Kinds of frames with which memory is offered.
enum : uint32_t { kOffer = 40, kReply = 41 };

Status send(RankLinks& links, int other, uint32_t kind, std::span<const std::byte> payload) {
  return send_frame(links.data(other), kind, payload, deadline_in_ms(links.deadline_ms()));
}

Result<Frame> receive(RankLinks& links, int other, uint32_t kind) {
  Frame frame;
  // No deadline, since the other rank may still plan its memory. If it dies, the links end the
  // call.
  const Status status = receive_frame(links.data(other), frame, 0);
  if (!status.ok()) {
    links.break_at(other, status.message());
    return links.status();
  }
  if (frame.kind != kind)
    return data_loss("rank {} sent a frame of kind {}, expected {}", other, frame.kind, kind);
  return frame;
}

}  // namespace

// Yes is a payload of one byte, no is an empty payload.
Status send_answer(RankLinks& links, int other, uint32_t kind, bool is_yes) {
  const std::byte yes{1};
  return send(links, other, kind, std::span(&yes, is_yes ? 1 : 0));
}

Result<bool> receive_answer(RankLinks& links, int other, uint32_t kind) {
  QUIRE_ASSIGN_OR_RETURN(const Frame frame, receive(links, other, kind));
  return frame.payload.size() == 1;
}

Result<std::vector<int>> offer_memory(RankLinks& links, const RankRange& others,
                                      const SharedMemoryOffer& offer) {
  for (int other = others.begin; other < others.end; ++other)
    QUIRE_RETURN_IF_ERROR(send(links, other, kOffer, std::as_bytes(std::span(&offer, 1))));
  std::vector<int> users;
  for (int other = others.begin; other < others.end; ++other) {
    QUIRE_ASSIGN_OR_RETURN(const bool uses, receive_answer(links, other, kReply));
    if (uses) users.push_back(other);
  }
  return users;
}

Result<bool> answer_offer(RankLinks& links, int from, int64_t num_bytes,
                          const std::function<bool(SharedMemory memory)>& use) {
  QUIRE_ASSIGN_OR_RETURN(const Frame frame, receive(links, from, kOffer));
  SharedMemoryOffer offered;
  if (frame.payload.size() != sizeof(offered))
    return data_loss("rank {} offers memory in {} bytes, expected {}", from, frame.payload.size(),
                     sizeof(offered));
  std::memcpy(&offered, frame.payload.data(), sizeof(offered));
  bool uses = false;
  if (offered.process > 0 && offered.num_bytes == num_bytes) {
    Result<SharedMemory> memory = SharedMemory::open(offered);
    if (memory.ok()) uses = use(*std::move(memory));
  }
  QUIRE_RETURN_IF_ERROR(send_answer(links, from, kReply, uses));
  return uses;
}

}  // namespace quire
