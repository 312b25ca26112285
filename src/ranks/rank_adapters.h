// How ranks that are processes load LoRA adapters together. Each rank reads its part of an adapter
// from the same path on its own machine. The first rank numbers the adapters, and plans name them
// by number.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "ranks/loaded_rank.h"
#include "ranks/plan_codec.h"

namespace quire {

// The first rank's side. It borrows the rank; any thread may use it.
class LeadingAdapters {
 public:
  explicit LeadingAdapters(LoadedRank& rank) : rank_(rank) {}

  // Calls Executor::load_adapter() on this rank and, if that succeeds, on all others. Returns the
  // error of the lowest rank that has one. kDataLoss: a rank has other files.
  Result<std::shared_ptr<const Adapter>> load(const std::string& name, const std::string& path);
  // Returns a number for each new request of the plan, 0 for a request without an adapter. Returns
  // nothing if no request has one. The result is valid until the next call.
  std::span<const uint64_t> numbers_of(const StepPlan& plan);

 private:
  // Tells the other ranks to read the adapter, and to free those that no request can name any more.
  Status tell_others(uint64_t number, const std::string& path);
  Status hear_others(const std::string& content_key);

  LoadedRank& rank_;
  std::mutex loading_;
  std::mutex mutex_;                                        // guards known_
  std::map<uint64_t, std::weak_ptr<const Adapter>> known_;  // by number
  uint64_t last_number_ = 0;
  std::vector<uint64_t> numbers_;  // used by the thread that runs steps
};

// The side of each other rank. It borrows the rank. Files are read on a thread of their own, since
// steps continue meanwhile; all calls come from one thread.
class FollowingAdapters {
 public:
  explicit FollowingAdapters(LoadedRank& rank) : rank_(rank) {}
  ~FollowingAdapters() { wait(); }

  // Starts to load the adapter that LeadingAdapters::load() named; the reply is sent when that is
  // done.
  Status load(std::span<const std::byte> order);
  // Sets the adapters of the plan's new requests. kDataLoss: an adapter is not loaded here.
  Status give_adapters(DecodedStep& step);

 private:
  void wait();

  LoadedRank& rank_;
  std::thread thread_;
  std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<const Adapter>> adapters_;  // under mutex_
};

}  // namespace quire
