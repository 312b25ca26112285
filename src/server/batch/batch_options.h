// These are the options and the counts of a run of a batch file.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace quire {

struct BatchCounts {
  int64_t num_requests = 0;  // lines that are not empty
  int64_t num_answered = 0;  // with status 200
  int64_t num_failed = 0;    // lines that are no requests, and answers with another status
  int64_t num_kept = 0;      // answered by an earlier run
};

struct BatchOptions {
  std::string input;
  std::string output;
  // Requests that run at the same time.
  int32_t max_concurrent = 64;
  // Starts anew. Otherwise the run keeps the answers that the output already holds and does not
  // send their requests again.
  bool overwrite = false;
  // Called on the calling thread with the number of input bytes that are done.
  std::function<void(int64_t done_bytes, int64_t total_bytes)> on_progress = {};
  // The priority of requests that name none, where the server schedules by priority.
  std::optional<int32_t> priority = {};
  // Asked before each request. When it returns true, no more requests are started, and the run ends
  // once the running ones have ended.
  std::function<bool()> is_stopped = {};
  // Called after each answer, on a thread of the run.
  std::function<void(const BatchCounts& counts)> on_counts = {};
};

}  // namespace quire
