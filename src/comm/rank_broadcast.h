// What the first rank of all says to all others, in order. Those of its machine read it in memory that
// they share with it, where it is written once; to the rest it is sent, to one after the other.
//
//   QUIRE_ASSIGN_OR_RETURN(auto broadcast, RankBroadcast::join(links, transport));
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "comm/memory_offers.h"
#include "comm/rank_links.h"
#include "comm/shared_pipe.h"
#include "comm/socket.h"

namespace quire {

class RankBroadcast {
 public:
  // Every rank calls it once, before others use the links. Borrows them. kUnavailable: a rank is lost.
  static Result<std::unique_ptr<RankBroadcast>> join(RankLinks& links, RankTransport transport);

  // Of the first rank, any thread. Waits while a rank reads nothing, as long as it lives. kUnavailable:
  // a rank is lost.
  Status send(uint32_t kind, std::span<const std::byte> payload);
  // Of the others, one thread: waits for the next frame, as long as the first rank lives. kUnavailable:
  // it is lost. kDataLoss: what came is no frame.
  Status receive(Frame& frame);

 private:
  explicit RankBroadcast(RankLinks& links) : links_(links) {}
  Status offer(RankTransport transport);
  Status accept();
  SharedPipe& pipe() { return *reinterpret_cast<SharedPipe*>(memory_->bytes().data()); }
  Status lost(int other, const Status& status);

  RankLinks& links_;
  std::optional<SharedMemory> memory_;
  std::mutex sending_;
  std::optional<PipeWriter> writer_;  // of the first rank, where others share memory
  std::vector<int> others_;           // who share none
  std::optional<PipeReader> reader_;  // of another, where it does
};

}  // namespace quire
