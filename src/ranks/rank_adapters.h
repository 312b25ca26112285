// Ranks that are processes load LoRA adapters together. Each rank reads its part of an adapter from
// the same path on its own machine. The first rank numbers adapters, and requests in plans name
// them by number.
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

// This is the first rank's side. It borrows the rank; any thread may use it.
class LeadingAdapters {
 public:
  explicit LeadingAdapters(LoadedRank& rank) : rank_(rank) {}

  // Calls Executor::load_adapter() of all ranks and returns the first error of them. kDataLoss:
  // they do not all have the same files.
  Result<std::shared_ptr<const Adapter>> load(const std::string& name, const std::string& path);
  // Returns a number for each new request of the plan, 0 where it has none. They are valid until
  // the next call.
  std::span<const uint64_t> numbers_of(const StepPlan& plan);

 private:
  // Tells the others to read the adapter, and to let go what no request can name any more.
  Status tell_others(uint64_t number, const std::string& path);
  Status hear_others(const std::string& content_key);

  LoadedRank& rank_;
  std::mutex loading_;
  std::mutex mutex_;                                        // of known_
  std::map<uint64_t, std::weak_ptr<const Adapter>> known_;  // by number
  uint64_t last_number_ = 0;
  std::vector<uint64_t> numbers_;  // of the thread that runs steps
};

// This is another rank's side. It borrows the rank. Files are read on a thread of their own, since
// steps go on meanwhile; all calls come from one thread.
class FollowingAdapters {
 public:
  explicit FollowingAdapters(LoadedRank& rank) : rank_(rank) {}
  ~FollowingAdapters() { wait(); }

  // Obeys what LeadingAdapters::load() says, and answers when it is done.
  Status load(std::span<const std::byte> order);
  // Gives the plan's new requests their adapters. kDataLoss: one is not known here.
  Status give_adapters(DecodedStep& step);

 private:
  void wait();

  LoadedRank& rank_;
  std::thread thread_;
  std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<const Adapter>> adapters_;  // under mutex_
};

}  // namespace quire
