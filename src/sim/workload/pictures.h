// add_pictures() adds pictures to some requests of a workload.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/workload/workload.h"

namespace quire::sim {

struct PictureChoice {
  int32_t per_request = 0;
  double share = 1;                 // share of the sessions that get pictures
  std::vector<int32_t> items = {};  // Workload::picture_items
  uint64_t seed = 0;
};

// The pictures' tokens are added to input_tokens. Later turns of a session have the first turn's
// pictures in their history; requests with the same prompt get the same pictures.
void add_pictures(const PictureChoice& choice, Workload& workload);

}  // namespace quire::sim
