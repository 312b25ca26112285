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

// How much a reader may leave unread.
struct StreamLimits {
  // From this many unread deltas on, output of a choice is merged into its last unread delta.
  int32_t max_unread_deltas = 64;
  // Beyond this the stream has overflowed and its request is aborted. A single delta may always
  // wait, whatever its size.
  int64_t max_unread_bytes = int64_t{8} << 20;
  // The same limit for all streams together. A stream with at most kAlwaysUnreadBytes is not
  // aborted, since it is not the one that takes the room.
  int64_t max_total_unread_bytes = int64_t{256} << 20;
  static constexpr int64_t kAlwaysUnreadBytes = 16 * 1024;
};

// Returns about how much memory a delta takes. Prompt logprobs do not count: they come once and
// have their own limit.
int64_t size_bytes(const OutputDelta& delta);

// One engine thread pushes, one reader pops. Every choice ends with exactly one delta that has a
// finish_reason; later pushes are dropped. Both ends share the channel, since either may be
// destroyed first.
class OutputChannel {
 public:
  // `total_unread_bytes` counts the bytes in all channels of an engine; if null, this channel
  // counts for itself.
  OutputChannel(int32_t num_choices, StreamLimits limits, std::function<void()> on_ready,
                std::shared_ptr<std::atomic<int64_t>> total_unread_bytes = nullptr);
  ~OutputChannel();
  OutputChannel(const OutputChannel&) = delete;
  OutputChannel& operator=(const OutputChannel&) = delete;

  // --- Engine thread ---
  // Returns false if the reader has left too much unread: the delta is lost, and the caller aborts
  // the request. A delta with a finish_reason of kAbort or kError is always taken.
  bool push(OutputDelta delta);
  // Makes pushed deltas visible to the reader and tells it. Call it once after all pushes of a
  // step: the reader sees none of them before.
  void notify();

  // --- Reader ---
  std::optional<OutputDelta> try_pop();
  std::optional<OutputDelta> pop();
  bool done() const;
  // Every choice has finished and the reader was told, whether or not it has read.
  bool all_pushed() const;

 private:
  std::optional<OutputDelta> pop_locked();
  bool has_room(int64_t num_bytes) const;
  void count_unread(int64_t num_bytes);

  const StreamLimits limits_;
  const std::function<void()> on_ready_;
  // Shared by all channels of an engine.
  const std::shared_ptr<std::atomic<int64_t>> total_unread_bytes_;
  mutable std::mutex mutex_;
  std::condition_variable news_;
  std::vector<OutputDelta> unread_;  // few (max_unread_deltas); keeps its memory between deltas
  int64_t unread_bytes_ = 0;
  std::vector<bool> finished_;  // by choice
  int32_t num_unfinished_;      // including choices that end only with the next notify()
  size_t num_readable_ = 0;     // of unread_, at the last notify()
  bool ended_ = false;          // every choice had finished at the last notify()
};

}  // namespace quire
