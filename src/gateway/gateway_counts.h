// These are the counts of a gateway, in addition to those of its backends.
#pragma once

#include <cstdint>

#include "engine/observe/engine_stats.h"

namespace quire::gateway {

struct GatewayCounts {
  uint64_t num_requests = 0;         // sent to backends
  uint64_t num_prefills = 0;         // of them, those that a prefill server was to compute first
  uint64_t num_prefills_failed = 0;  // of those, the ones that another backend computed as a whole
  uint64_t num_retries = 0;          // times that a request was sent to another backend
  uint64_t num_refused = 0;          // requests that no backend accepted
  uint64_t num_cut = 0;              // answers that a backend broke off after the first byte
  int64_t num_open = 0;              // requests that are being answered
  Histogram choice_seconds{{1e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 1e-2}};
  Histogram first_byte_seconds{buckets::time_to_first_token_s()};
};

}  // namespace quire::gateway
