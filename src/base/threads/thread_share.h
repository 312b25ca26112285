// Divides compute threads among parts of a process, or processes of a host.
#pragma once

#include <algorithm>

#include "base/threads/cpu_topology.h"

namespace quire {

// Returns how many threads each of `num_parts` parts gets, at least 1, if all together should have
// `num_threads` (0: default_num_threads()).
inline int share_of_threads(int num_threads, int num_parts) {
  return std::max(1, (num_threads > 0 ? num_threads : default_num_threads()) / num_parts);
}

}  // namespace quire
