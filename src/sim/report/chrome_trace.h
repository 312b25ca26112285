// A ChromeTrace writes steps and requests as trace events that chrome://tracing and Perfetto read:
// one process per replica, with its steps on one track and counters beside it.
#pragma once

#include <cstdint>
#include <string>

#include "sim/fleet/fleet.h"

namespace quire::sim {

class ChromeTrace {
 public:
  // Steps after the first max_steps are left out.
  explicit ChromeTrace(int64_t max_steps) : max_steps_(max_steps) {}
  void add(const StepView& step);
  // Adds spans of the requests: waiting, prefill until the first token, decoding.
  void add_requests(const RunResult& result);
  // Returns the whole trace file.
  std::string text() const;
  int64_t num_left_out() const { return num_left_out_; }

 private:
  void event(std::string text);

  int64_t max_steps_;
  int64_t num_steps_ = 0;
  int64_t num_left_out_ = 0;
  std::string events_;
};

}  // namespace quire::sim
