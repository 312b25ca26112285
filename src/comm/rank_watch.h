// RankWatch finds out whether ranks in other processes live. Both ends of a connection send a byte
// every half second from a thread of their own, so a rank that computes for minutes is alive, and a
// process that is stopped is not.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "comm/socket.h"

namespace quire {

class RankWatch {
 public:
  struct Peer {
    int rank = 0;
    Socket socket;
  };
  // Called at most once for each peer, on the watching thread.
  using OnLost = std::function<void(int rank, const std::string& reason)>;

  // Starts watching. A peer that closes the connection, or sends nothing for `silence_ms`, is lost.
  // kUnavailable: the system has no more file descriptors.
  static Result<std::unique_ptr<RankWatch>> start(std::vector<Peer> peers, int64_t silence_ms,
                                                  OnLost on_lost);
  // Stops watching and closes the connections. Without end(), the peers take that for a loss.
  ~RankWatch() { stop(); }
  RankWatch(const RankWatch&) = delete;
  RankWatch& operator=(const RankWatch&) = delete;

  // Says goodbye, so that no peer takes the end of this rank for a loss, and stops watching.
  void end();

 private:
  RankWatch(std::vector<Peer> peers, int64_t silence_ms, OnLost on_lost, Socket bell);
  void run();
  void hear(size_t index);
  void lose(size_t index, const std::string& reason);
  void say(char sign);
  void stop();

  std::vector<Peer> peers_;
  std::vector<int64_t> heard_us_;  // by peer: when it last sent something
  int64_t silence_us_;
  OnLost on_lost_;
  Socket bell_;  // an event file descriptor that tells the thread to end
  bool is_ended_ = false;
  std::thread thread_;
};

}  // namespace quire
