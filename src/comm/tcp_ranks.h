// A group of ranks that are processes and talk over TCP. Each has memory of its own; the columns of a
// matrix travel from every rank to every other.
//
//   TcpRanks ranks(links, 0, links.size());
//   ranks.allocate(bytes);
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "comm/rank_group.h"
#include "comm/rank_links.h"

namespace quire {

// Borrows the links. One thread.
class TcpRanks final : public RankGroup {
 public:
  // Of all ranks that are linked, the `size` from number `first` on, of which this one is one.
  TcpRanks(RankLinks& links, int first, int size);

  // Once, before the first gather().
  Status allocate(int64_t memory_bytes);

  std::span<std::byte> memory() const override { return memory_; }
  bool gather(const GatheredMatrix& matrix) override;
  bool release() override { return links_.status().ok(); }  // memory is each rank's own
  void leave() override { links_.leave(); }
  Status status() const override { return links_.status(); }

 private:
  // What is on its way to or from another rank.
  struct Transfer {
    std::vector<std::byte> in;
    size_t num_sent = 0, num_received = 0;
    bool sends = false;
  };

  const Socket& data(int other) const { return links_.data(first_ + other); }
  bool exchange();
  Status move_bytes(int other, short ready);
  bool break_at(int other, const std::string& reason);

  RankLinks& links_;
  int first_;
  std::vector<Transfer> transfers_;  // by rank; that of this one is unused
  std::vector<std::byte> out_;       // of this rank, in the exchange under way
  uint64_t num_gathers_ = 0;
  std::unique_ptr<std::byte[]> storage_;
  std::span<std::byte> memory_;
};

}  // namespace quire
