// These functions compute what other formats, more devices and speculation would gain for a model
// on a device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "roofline/model/cost_model.h"

namespace quire::roofline {

struct WhatIf {
  std::string name;
  ModelShape model;
  Parallelism parallelism;
  double tokens_per_step = 1;  // the expected number, per request
  int32_t positions = 1;       // the positions that a step computes per request
};

// Returns all variants; the first one is the model as it is.
std::vector<WhatIf> what_ifs(const CostModel& cost);

// Returns the tokens per second of decoding for `batch` requests at `context` keys each; nullopt
// when the model cannot be divided as WhatIf::parallelism says.
std::optional<double> tokens_per_s(const WhatIf& what, const Hardware& hardware, int32_t batch,
                                   int32_t context);

}  // namespace quire::roofline
