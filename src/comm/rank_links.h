// The connections between ranks that are processes, of one machine or of several.
//
//   QUIRE_ASSIGN_OR_RETURN(auto links, RankLinks::join({.rank = 1, .size = 2, .address = "10.0.0.7"}));
//
// The ranks find each other through the first one: it listens, the others call it and learn where
// the rest is. What joined ranks must agree on (the model, the flags) is compared then. From there on
// the first rank and each other one watch each other, and a loss ends all connections, so that nobody
// waits for what does not come.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "comm/rank_watch.h"
#include "comm/socket.h"

namespace quire {

struct RankLinksOptions {
  int rank = 0;
  int size = 1;
  std::string address = "127.0.0.1";  // of the first rank
  uint16_t port = 29500;
  std::string agreement = {};         // equal for all ranks, at most 4096 bytes
  int64_t join_deadline_ms = 60'000;  // until all ranks are there
  int64_t deadline_ms = 4000;         // for a sign of life, and for what comes at once
};

class RankLinks {
 public:
  // kInvalidArgument: a rank outside of the group, ranks that do not agree. kUnavailable,
  // kDeadlineExceeded: not all ranks came.
  static Result<std::unique_ptr<RankLinks>> join(const RankLinksOptions& options);

  int rank() const { return options_.rank; }
  int size() const { return options_.size; }
  int64_t deadline_ms() const { return options_.deadline_ms; }

  // Between any two ranks, for what steps exchange.
  const Socket& data(int other) const { return links_[static_cast<size_t>(other)].data; }
  // Between the first rank and each other one, for what it says. Of the first rank: to rank `other`.
  // Of another: to the first, whatever `other` is.
  const Socket& control(int other) const;
  // Likewise, for host blocks of ranks on other machines.
  Socket& blocks(int other) { return links_[rank() == 0 ? static_cast<size_t>(other) : 0].blocks; }

  // Says goodbye to the ranks that watch this one: its end is no loss.
  void end();
  // Any thread, as the rest: what was to come from `other` does not. Ends all connections, so that no
  // rank waits any longer. The first reason is kept; that of the watch comes before others, since
  // `other` may only have heard of a loss before this rank did.
  void break_at(int other, const std::string& reason);
  void leave();
  // kUnavailable with the rank that was lost.
  Status status() const;

 private:
  explicit RankLinks(RankLinksOptions options);
  struct Link {
    Socket data;
    Socket control;
    Socket watch;
    Socket blocks;
    std::string address;
    uint16_t port = 0;

    Socket* place(uint32_t kind);
  };

  Status lead(const Socket& listener);
  Status follow(const Socket& listener);
  Status meet_others(const Socket& listener, int64_t deadline_us);
  Status start_watch();
  void on_lost(int other, const std::string& reason);
  // Says who this is and where it listens; the other end admits it or says why not.
  Status introduce(const Socket& socket, uint32_t kind, uint16_t port, int64_t deadline_us) const;
  // Takes in one connection. False: it came from nobody who belongs here.
  Result<bool> admit(Socket socket);

  RankLinksOptions options_;
  std::vector<Link> links_;  // by rank; that of this one is unused
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Status status_;                     // under mutex_
  std::unique_ptr<RankWatch> watch_;  // ends before what it breaks
};

}  // namespace quire
