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
#include <deque>
#include <mutex>
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

  // Borrows the memory and the links, of which it uses those for blocks to `other`.
  HostBlockLink(RankLinks& links, int other, Blocks blocks);
  // Drops messages that have not been sent.
  ~HostBlockLink();
  HostBlockLink(const HostBlockLink&) = delete;
  HostBlockLink& operator=(const HostBlockLink&) = delete;

  // Queues the blocks' present content, and returns at once. kInternal: there is no such block.
  Status send(const std::vector<HostBlock>& blocks);
  // Waits for the next message, as long as both ranks live, and writes its content to the blocks.
  // kUnavailable: the rank is lost. kDataLoss: the message does not hold blocks.
  Status receive();

 private:
  Result<std::span<std::byte>> bytes_of(const HostBlock& block) const;
  Status take(std::span<const std::byte> message);
  Status lost(const Status& status);
  void send_all();

  RankLinks& links_;
  const int other_;
  const Blocks blocks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::vector<std::byte>> outgoing_;  // under mutex_
  bool is_ending_ = false;                       // under mutex_
  std::thread thread_;
};

}  // namespace quire
