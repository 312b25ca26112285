// Whether ranks in other processes live. Both ends of a connection send a byte every half second, from
// a thread of their own: a rank that computes for minutes lives, one that is stopped does not.
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
  // The function is called at most once for each peer, on the watching thread.
  using OnLost = std::function<void(int rank, const std::string& reason)>;

  // A peer that closes, or says nothing for `silence_ms`, is lost. kUnavailable: the system has no
  // more file descriptors.
  static Result<std::unique_ptr<RankWatch>> start(std::vector<Peer> peers, int64_t silence_ms,
                                                  OnLost on_lost);
  // Watches no more; to the peers this rank is gone.
  ~RankWatch() { stop(); }
  RankWatch(const RankWatch&) = delete;
  RankWatch& operator=(const RankWatch&) = delete;

  // Says goodbye, so that no peer takes the end of this rank for a loss, and watches no more.
  void end();

 private:
  RankWatch(std::vector<Peer> peers, int64_t silence_ms, OnLost on_lost, Socket bell);
  void run();
  void hear(size_t index);
  void lose(size_t index, const std::string& reason);
  void say(char sign);
  void stop();

  std::vector<Peer> peers_;
  std::vector<int64_t> heard_us_;  // by peer: when it last said something
  int64_t silence_us_;
  OnLost on_lost_;
  Socket bell_;  // an event: rung to end the thread
  bool is_ended_ = false;
  std::thread thread_;
};

}  // namespace quire
