// A RankBroadcast carries the first rank's messages to all other ranks, in order. The ranks of its
// machine read them in memory that they share with it, where each message is written once; each of
// the other ranks gets its own copy over TCP.
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
  // Every rank calls this once, before anything else uses the links, which are borrowed.
  // kUnavailable: a rank is lost.
  static Result<std::unique_ptr<RankBroadcast>> join(RankLinks& links, RankTransport transport);

  // Sends a frame to all other ranks; any thread of the first rank may call it. Blocks while a rank
  // does not read, as long as that rank lives. kUnavailable: a rank is lost. kInvalidArgument: the
  // payload is longer than kMaxFrameBytes, and nothing is sent.
  Status send(uint32_t kind, std::span<const std::byte> payload);
  // Receives the next frame; one thread of each other rank calls it. Blocks as long as the first
  // rank lives. kUnavailable: the first rank is lost. kDataLoss: the bytes are not a frame.
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
  std::optional<PipeWriter> writer_;  // on the first rank, if others share its memory
  std::vector<int> others_;           // the ranks that do not share the memory
  std::optional<PipeReader> reader_;  // on another rank, if it shares the memory
};

}  // namespace quire
