// What a run of a batch file is told, and what it counts.
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
  // Requests under way at once.
  int32_t max_concurrent = 64;
  // Begin anew. Otherwise answers that the output holds already are kept, and their requests are
  // not asked again.
  bool overwrite = false;
  // It is told how many bytes of the input are done, on the calling thread.
  std::function<void(int64_t done_bytes, int64_t total_bytes)> on_progress = {};
  // Of requests that name none, where the server schedules by priority.
  std::optional<int32_t> priority = {};
  // Asked before each request: true begins no more, and the run ends when those under way have.
  std::function<bool()> is_stopped = {};
  // It is called after each answer, on a thread of the run.
  std::function<void(const BatchCounts& counts)> on_counts = {};
};

}  // namespace quire
