// Log lines about the engine's work: throughput from time to time, and each step if asked for.
#pragma once

#include <cstdint>

#include "core/step.h"
#include "engine/observe/engine_stats.h"

namespace quire {

class EngineLog {
 public:
  // Logs throughput every `interval_us`, or never if that is 0. With `log_steps` it writes one
  // debug line per step.
  EngineLog(int64_t interval_us, bool log_steps)
      : interval_us_(interval_us), log_steps_(log_steps) {}

  // Whether a throughput line is due.
  bool due(int64_t now_us) const { return interval_us_ > 0 && now_us - last_us_ >= interval_us_; }
  // Logs throughput and hit rate since the last line, and the queue and cache as they are. Logs
  // nothing if nothing happened since.
  void throughput(const EngineStats& stats, int64_t now_us);
  void step(const StepRecord& step) const;

 private:
  const int64_t interval_us_;
  const bool log_steps_;
  int64_t last_us_ = 0;
  uint64_t last_prompt_tokens_ = 0;
  uint64_t last_generation_tokens_ = 0;
  uint64_t last_queries_ = 0;
  uint64_t last_hits_ = 0;
  bool was_busy_ = false;
};

}  // namespace quire
