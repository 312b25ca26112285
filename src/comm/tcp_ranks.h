// TcpRanks is a group of ranks that are processes and talk over TCP. Each rank has memory of its
// own; every rank sends its columns of a matrix to every other.
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

// Borrows the links. One thread may use it.
class TcpRanks final : public RankGroup {
 public:
  // Makes a group of `size` linked ranks from number `first` on; this rank is one of them.
  TcpRanks(RankLinks& links, int first, int size);

  // Must be called once, before the first gather().
  Status allocate(int64_t memory_bytes);

  std::span<std::byte> memory() const override { return memory_; }
  bool gather(const GatheredMatrix& matrix) override;
  bool all_to_all(const ExchangedMatrix& matrix) override;
  bool release() override { return links_.status().ok(); }  // each rank has its own memory
  void leave() override { links_.leave(); }
  Status status() const override { return links_.status(); }

 private:
  // A part of a matrix that is packed into one message.
  struct Block {
    MatrixRows rows;
    ByteColumns columns;
    size_t size_bytes() const { return static_cast<size_t>(rows.size() * columns.size()); }
  };
  // The bytes that this rank exchanges with one other rank.
  struct Transfer {
    Block block;  // the part of the matrix that comes in
    std::vector<std::byte> in, own;
    std::span<const std::byte> out;  // the message that all others get too, or `own`
    size_t num_sent = 0, num_received = 0;

    bool is_done() const { return num_sent == out.size() && num_received == in.size(); }
  };

  const Socket& data(int other) const { return links_.data(first_ + other); }
  // Packs a message, which begins with the number of the exchange, so that ranks that are at
  // different exchanges are found out.
  void pack(const std::byte* first, int64_t stride_bytes, const Block& block,
            std::vector<std::byte>& message) const;
  void expect(const Block& block, Transfer& transfer) const;
  // Sends and receives the prepared transfers, and writes what came in to the matrix at `first`.
  bool exchange(std::byte* first, int64_t stride_bytes);
  bool move_all();
  bool unpack(int other, std::byte* first, int64_t stride_bytes);
  // Moves what can be moved without waiting. Returns false if nothing could be.
  Result<bool> move_bytes(int other);
  bool break_at(int other, const std::string& reason);

  RankLinks& links_;
  int first_;
  std::vector<Transfer> transfers_;  // by rank; the entry of this rank is unused
  std::vector<std::byte> out_;       // this rank's message to all others
  uint64_t num_exchanges_ = 0;
  std::unique_ptr<std::byte[]> storage_;
  std::span<std::byte> memory_;
};

}  // namespace quire
