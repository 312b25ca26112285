// Ranks that are processes, of one machine or of several, over TCP. Each has memory of its own; the
// columns of a matrix travel from every rank to every other.
//
//   QUIRE_ASSIGN_OR_RETURN(auto ranks, TcpRanks::join({.rank = 1, .size = 2, .address = "10.0.0.7"}));
//   ranks->allocate(bytes);
//
// The ranks find each other through the first one: it listens, the others call it and learn where
// the rest is. What joined ranks must agree on (the model, the flags) is compared then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "comm/rank_group.h"
#include "comm/socket.h"

namespace quire {

struct TcpRanksOptions {
  int rank = 0;
  int size = 1;
  std::string address = "127.0.0.1";  // of the first rank
  uint16_t port = 29500;
  std::string agreement = {};         // equal for all ranks, at most 4096 bytes
  int64_t join_deadline_ms = 60'000;  // until all ranks are there
  int64_t deadline_ms = 4000;         // as SharedRanksOptions has it
};

class TcpRanks final : public RankGroup {
 public:
  // kInvalidArgument: a rank outside of the group, ranks that do not agree. kUnavailable,
  // kDeadlineExceeded: not all ranks came.
  static Result<std::unique_ptr<TcpRanks>> join(const TcpRanksOptions& options);

  // Once, before the first gather().
  Status allocate(int64_t memory_bytes);

  std::span<std::byte> memory() const override { return memory_; }
  bool gather(const GatheredMatrix& matrix) override;
  bool release() override { return status_.ok(); }  // memory is each rank's own
  void leave() override;
  Status status() const override { return status_; }

  // A second connection between the first rank and each other one, for what is no part of a step.
  // Of the first rank: to rank `other`. Of another: to the first, whatever `other` is.
  const Socket& control(int other) const;
  int64_t deadline_ms() const { return options_.deadline_ms; }

 private:
  explicit TcpRanks(TcpRanksOptions options);
  // What is on its way to or from another rank.
  struct Link {
    Socket data;
    Socket control;
    std::vector<std::byte> in;
    size_t num_sent = 0, num_received = 0;
    bool sends = false;
    std::string address;
    uint16_t port = 0;
  };

  Status lead(const Socket& listener);
  Status follow(const Socket& listener);
  // Says who this is and where it listens; the other end admits it or says why not.
  Status introduce(const Socket& socket, uint32_t kind, uint16_t port, int64_t deadline_us) const;
  // Takes in one connection. False: it came from nobody who belongs here.
  Result<bool> admit(Socket socket);
  bool exchange();
  Status move_bytes(Link& link, short ready);
  bool break_at(int other, const std::string& reason);

  TcpRanksOptions options_;
  std::vector<Link> links_;     // by rank; that of this one is unused
  std::vector<std::byte> out_;  // of this rank, in the exchange under way
  uint64_t num_gathers_ = 0;
  std::unique_ptr<std::byte[]> storage_;
  std::span<std::byte> memory_;
  Status status_;
};

}  // namespace quire
