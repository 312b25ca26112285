#include "comm/rank_broadcast.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/threads/spins.h"

namespace quire {

Result<std::unique_ptr<RankBroadcast>> RankBroadcast::join(RankLinks& links,
                                                           RankTransport transport) {
  std::unique_ptr<RankBroadcast> broadcast(new RankBroadcast(links));
  QUIRE_RETURN_IF_ERROR(links.rank() == 0 ? broadcast->offer(transport) : broadcast->accept());
  return broadcast;
}

Status RankBroadcast::offer(RankTransport transport) {
  if (transport == RankTransport::kFastest) {
    Result<SharedMemory> made = SharedMemory::create(SharedPipe::mapped_bytes());
    if (made.ok()) {
      memory_ = *std::move(made);
      new (memory_->bytes().data()) SharedPipe;
    }
  }
  QUIRE_ASSIGN_OR_RETURN(
      std::vector<int> readers,
      offer_memory(links_, {1, links_.size()}, memory_ ? memory_->offer() : SharedMemoryOffer()));
  for (int other = 1; other < links_.size(); ++other) {
    if (std::find(readers.begin(), readers.end(), other) == readers.end()) others_.push_back(other);
  }
  if (!readers.empty()) writer_.emplace(pipe(), std::move(readers));
  return {};
}

Status RankBroadcast::accept() {
  const auto use = [&](SharedMemory memory) {
    memory_ = std::move(memory);
    reader_.emplace(pipe(), links_.rank(), spins_before_sleep(links_.size()));
    return true;
  };
  return answer_offer(links_, 0, SharedPipe::mapped_bytes(), use).status();
}

Status RankBroadcast::send(uint32_t kind, std::span<const std::byte> payload) {
  const OutgoingFrame frame(kind, payload);
  QUIRE_RETURN_IF_ERROR(frame.check());
  const std::lock_guard lock(sending_);
  const auto goes_on = [this] { return links_.status().ok(); };
  if (writer_ && !writer_->write({frame.header(), payload}, goes_on)) return links_.status();
  for (const int other : others_)
    QUIRE_RETURN_IF_ERROR(lost(other, frame.send(links_.control(other), 0)));
  return {};
}

// After the first rank's goodbye the watch reports no loss. If the first rank then closes its
// connections without sending an end frame, has_closed() ends the wait.
Status RankBroadcast::receive(Frame& frame) {
  const Socket& control = links_.control(0);
  if (!reader_) return lost(0, receive_frame(control, frame, 0));
  const auto goes_on = [&] { return links_.status().ok() && !has_closed(control); };
  const auto read = [&](std::span<std::byte> bytes) -> Status {
    if (reader_->read(bytes, goes_on)) return {};
    return unavailable("the other rank has closed the connection");
  };
  return lost(0, receive_frame(read, frame));
}

Status RankBroadcast::lost(int other, const Status& status) {
  if (status.ok()) return status;
  links_.break_at(other, status.message());
  return links_.status();
}

}  // namespace quire
