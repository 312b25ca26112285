// What keeps threads out of each other's captures.
#pragma once

#include <mutex>

namespace quire::cuda {

// Held while a stream captures a graph, and by calls that make or free what belongs to the whole
// device: on hardware such calls of one thread invalidated what another thread was capturing, even
// in the mode that is said to look at the capturing thread alone. There is one for the process
// because the driver's state is the process's.
std::recursive_mutex& capture_mutex();

}  // namespace quire::cuda
