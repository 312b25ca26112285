// The connections between ranks that are processes, of one machine or of several.
//
//   QUIRE_ASSIGN_OR_RETURN(auto links, RankLinks::join({.rank = 1, .size = 2, .address = "10.0.0.7"}));
//
// The ranks find each other through the first one: it listens, and the others connect to it and
// learn the addresses of the rest. Joining also compares what the ranks must agree on (the model,
// the flags). Afterwards the first rank and each other rank watch each other. A loss ends all
// connections, so that no rank waits for messages that will not come.
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
  std::string address = "127.0.0.1";  // where the first rank listens
  uint16_t port = 29500;
  std::string agreement = {};         // must be the same string on all ranks, at most 4096 bytes
  int64_t join_deadline_ms = 60'000;  // to wait for all ranks
  int64_t deadline_ms = 4000;         // to wait for a sign of life or a prompt answer
};

class RankLinks {
 public:
  // Returns when all ranks have joined. kInvalidArgument: the rank is outside of the group, or the
  // ranks do not agree. kUnavailable, kDeadlineExceeded: not all ranks came. Connections from
  // elsewhere, even from ranks of a group of another size, are refused and do no harm.
  static Result<std::unique_ptr<RankLinks>> join(const RankLinksOptions& options);

  int rank() const { return options_.rank; }
  int size() const { return options_.size; }
  int64_t deadline_ms() const { return options_.deadline_ms; }

  // The connection to rank `other` for data that steps exchange.
  const Socket& data(int other) const { return links_[static_cast<size_t>(other)].data; }
  // The connection for the first rank's orders. On the first rank: the one to rank `other`. On
  // another rank: the one to the first rank, whatever `other` is.
  const Socket& control(int other) const;
  // The connection for host blocks of ranks on other machines, with `other` as in control().
  Socket& blocks(int other) { return links_[rank() == 0 ? static_cast<size_t>(other) : 0].blocks; }

  // Says goodbye to the ranks that watch this one, so that they do not take its end for a loss.
  void end();
  // Reports that rank `other` failed to deliver, and ends all connections, so that no rank waits
  // any longer. Any thread may call it, as it may the other methods. The first reason is kept, but
  // the watch is given time to report first, since `other` may only have heard of a loss before
  // this rank did.
  void break_at(int other, const std::string& reason);
  void leave();
  // Returns kUnavailable with the rank that was lost, else ok.
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
  // Tells the other end this rank and its port; the other end admits it or says why not.
  Status introduce(const Socket& socket, uint32_t kind, uint16_t port, int64_t deadline_us) const;
  // Takes in one connection. Returns false if it is not from a rank that this group lacks. Ranks
  // that come with another agreement are an error, since some rank was started with wrong options.
  Result<bool> admit(Socket socket);
  // Tells the other end and the log why it is not admitted, and returns the reason.
  Status refuse(const Socket& socket, Status reason);

  RankLinksOptions options_;
  std::vector<Link> links_;  // by rank; the entry of this rank is unused
  Status last_refusal_;      // of a connection while this rank joined; ok if there was none
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Status status_;                     // under mutex_
  std::unique_ptr<RankWatch> watch_;  // destroyed before the members that its thread uses
};

}  // namespace quire
