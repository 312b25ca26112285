// A step log holds measured steps: `--step-log` writes it and `quire roofline calibrate` reads it.
//
// It has one JSON object per line. The first describes the run, each further one is a step:
//   {"quire_step_log": 1, "model": {…}, "hardware": "…", "tp": 1, "windows": []}
//   {"step": 7, "t_us": 1200, "tokens": 65, "requests": 2, "sampled": 1, "decodes": 1,
//    "decode_context": 700, "windowed": [0, 0], "chunks": [[64, 0]], "schedule_us": 3,
//    "execute_us": 900, "update_us": 5, "bound_us": 400.1, "predicted_us": 880.2, …}
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "roofline/model/cost_model.h"
#include "roofline/shape/model_shape.h"
#include "roofline/shape/step_shape.h"

namespace quire {

struct StepLogHeader {
  ModelShape model;
  Parallelism parallelism;
  std::string hardware;  // the description used for the bounds
};

struct MeasuredStep {
  uint64_t step_id = 0;
  int64_t begin_us = 0;
  StepShape shape;
  int64_t schedule_us = 0;
  int64_t execute_us = 0;
  int64_t update_us = 0;
  int32_t num_waiting = 0;  // requests in the queue
  bool failed = false;

  int64_t total_us() const { return schedule_us + execute_us + update_us; }
};

struct StepLog {
  StepLogHeader header;
  std::vector<MeasuredStep> steps;
};

std::string format_header(const StepLogHeader& header);  // including the line end
// Appends one line, including its end.
void append_step(std::string& out, const MeasuredStep& step, const StepCost& cost);

// Parses a log. The text is not trusted: errors name `where` and the line. A last line that was cut
// off when the process was killed is left out.
Result<StepLog> parse_step_log(std::string_view text, std::string_view where);

}  // namespace quire
