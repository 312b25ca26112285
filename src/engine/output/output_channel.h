// OutputChannel is the bounded pipe between the engine thread and the reader of one client request.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/output/generation.h"

namespace quire {

// What a reader may leave unread.
struct StreamLimits {
  // From here on, news of a choice is merged into its last unread delta instead of queueing a new
  // one.
  int32_t max_unread_deltas = 64;
  // Beyond this the stream has overflowed and its request is aborted. One delta may always wait,
  // whatever its size.
  int64_t max_unread_bytes = int64_t{8} << 20;
  // The same limit for all streams together. A stream with up to kAlwaysUnreadBytes is spared,
  // since it is not the one that takes the room.
  int64_t max_total_unread_bytes = int64_t{256} << 20;
  static constexpr int64_t kAlwaysUnreadBytes = 16 * 1024;
};

// Returns about how much memory a delta holds. Prompt logprobs do not count: they come once and
// have a limit of their own.
int64_t size_bytes(const OutputDelta& delta);

// One engine thread pushes, one reader pops. Every choice ends with exactly one delta that has a
// finish_reason; pushes after it are dropped. Both ends hold the channel by shared_ptr, since
// either may go first.
class OutputChannel {
 public:
  // `total_unread_bytes` counts what all channels of an engine hold; with null this channel counts
  // alone.
  OutputChannel(int32_t num_choices, StreamLimits limits, std::function<void()> on_ready,
                std::shared_ptr<std::atomic<int64_t>> total_unread_bytes = nullptr);
  ~OutputChannel();
  OutputChannel(const OutputChannel&) = delete;
  OutputChannel& operator=(const OutputChannel&) = delete;

  // --- Engine thread ---
  // False when the reader has left too much unread: the delta is lost, the caller aborts the
  // request. A delta with a finish_reason of kAbort or kError is always taken.
  bool push(OutputDelta delta);
  // Lets the reader have what was pushed, and tells it so. Call after the pushes of a step, not for
  // each: until then the reader sees nothing of them.
  void notify();

  // --- Reader ---
  std::optional<OutputDelta> try_pop();
  std::optional<OutputDelta> pop();
  bool done() const;
  bool all_pushed() const;  // every choice has finished and the reader was told, read or not

 private:
  std::optional<OutputDelta> pop_locked();
  bool has_room(int64_t num_bytes) const;
  void count_unread(int64_t num_bytes);

  const StreamLimits limits_;
  const std::function<void()> on_ready_;
  const std::shared_ptr<std::atomic<int64_t>> total_unread_bytes_;  // shared by all channels
  mutable std::mutex mutex_;
  std::condition_variable news_;
  std::vector<OutputDelta> unread_;  // few (max_unread_deltas); keeps its memory between deltas
  int64_t unread_bytes_ = 0;
  std::vector<bool> finished_;  // by choice
  int32_t num_unfinished_;      // as pushed
  size_t num_readable_ = 0;     // of unread_, as of the last notify()
  bool ended_ = false;          // every choice has finished, as of the last notify()
};

}  // namespace quire
