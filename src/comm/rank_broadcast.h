// A RankBroadcast carries what the first rank says to all others, in order. Those of its machine read it
// in memory that they share with it, where it is written once; to the rest it is sent, one by one.
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
  // Every rank calls it once, before anybody else uses the links, which it borrows. kUnavailable: a
  // rank is lost.
  static Result<std::unique_ptr<RankBroadcast>> join(RankLinks& links, RankTransport transport);

  // Any thread of the first rank may call it. It waits while a rank reads nothing, as long as that
  // rank lives. kUnavailable: a rank is lost.
  Status send(uint32_t kind, std::span<const std::byte> payload);
  // One thread of each other rank calls it. It waits for the next frame, as long as the first rank
  // lives. kUnavailable: the first rank is lost. kDataLoss: what came is no frame.
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
