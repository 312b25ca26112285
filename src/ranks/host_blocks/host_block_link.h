// HostBlockLink serves the host blocks of a rank on another machine. The first rank has a copy of
// these blocks, which its threads write to files and fill from files. Before a step it sends the
// blocks that the step reads, and after the step the other rank sends back the blocks that the step
// wrote.
//
//   // on the first rank, about a step                // on the other one
//   link.send(host_blocks_read(plan));                  link.receive();
//   run(plan);                                          run(plan);
//   link.receive();                                     link.send(host_blocks_written(plan));
//
// A thread sends the messages, so that neither rank waits until the other one reads.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/result.h"
#include "comm/rank_links.h"
#include "core/kv_files.h"
#include "core/kv_spec.h"
#include "core/step.h"

namespace quire {

struct HostBlock {
  KvPool pool = KvPool::kAttention;
  BlockId id;
  friend bool operator==(const HostBlock&, const HostBlock&) = default;
};

// Returns the blocks that the plan's copies read before they write them.
std::vector<HostBlock> host_blocks_read(const StepPlan& plan);
// Returns the blocks that the plan's copies write.
std::vector<HostBlock> host_blocks_written(const StepPlan& plan);

class HostBlockLink {
 public:
  // Pools whose data is null do not use this link.
  using Blocks = std::array<HostBlocks, kNumKvPools>;

  // Messages with more blocks are cut, so that none exceeds kMaxFrameBytes.
  static constexpr int64_t kMaxMessageBytes = int64_t{64} << 20;

  // Borrows the memory and the links, of which it uses those for blocks to `other`. A message takes
  // more than `max_message_bytes` only if a single block does.
  HostBlockLink(RankLinks& links, int other, Blocks blocks,
                int64_t max_message_bytes = kMaxMessageBytes);
  // Drops messages that have not been sent.
  ~HostBlockLink();
  HostBlockLink(const HostBlockLink&) = delete;
  HostBlockLink& operator=(const HostBlockLink&) = delete;

  // Queues the blocks' present content, and returns at once. kInternal: there is no such block.
  Status send(const std::vector<HostBlock>& blocks);
  // Waits for what the next send() of the other rank sends, as long as both ranks live, and writes
  // it to the blocks. kUnavailable: the rank is lost, or has sent something else.
  Status receive();

 private:
  using Message = std::vector<std::byte>;
  struct Outgoing {
    uint32_t kind = 0;  // of the frame
    Message message;
  };

  Result<std::span<std::byte>> bytes_of(const HostBlock& block) const;
  Status take(std::span<const std::byte> message);
  Status lost(const Status& status);
  void send_all();

  RankLinks& links_;
  const int other_;
  const Blocks blocks_;
  const int64_t max_message_bytes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Outgoing> outgoing_;  // under mutex_
  bool is_ending_ = false;         // under mutex_
  std::thread thread_;
};

}  // namespace quire
