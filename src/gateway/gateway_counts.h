// What a gateway has counted, beside what its backends have.
#pragma once

#include <cstdint>

#include "engine/observe/engine_stats.h"

namespace quire::gateway {

struct GatewayCounts {
  uint64_t num_requests = 0;         // that go to backends
  uint64_t num_prefills = 0;         // of them, those whose prompts others were to compute
  uint64_t num_prefills_failed = 0;  // of those, the ones that were then computed as a whole
  uint64_t num_retries = 0;          // sent again, to another backend
  uint64_t num_refused = 0;          // no backend took them
  uint64_t num_cut = 0;              // answers that a backend did not end, after the first byte
  int64_t num_open = 0;              // requests that are being answered
  Histogram choice_seconds{{1e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 1e-2}};
  Histogram first_byte_seconds{buckets::time_to_first_token_s()};
};

}  // namespace quire::gateway
