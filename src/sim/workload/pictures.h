// add_pictures() has some requests of a workload bring pictures.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/workload/workload.h"

namespace quire::sim {

struct PictureChoice {
  int32_t per_request = 0;
  double share = 1;                 // of sessions that bring any
  std::vector<int32_t> items = {};  // Workload::picture_items
  uint64_t seed = 0;
};

// Their tokens come on top of input_tokens. Later turns of a session have those of its first in their
// history; requests that ask the same prompt bring the same.
void add_pictures(const PictureChoice& choice, Workload& workload);

}  // namespace quire::sim
