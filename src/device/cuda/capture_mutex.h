// A lock that keeps threads from invalidating each other's graph captures.
#pragma once

#include <mutex>

namespace quire::cuda {

// A thread holds it while a stream captures a graph, and around calls that create or free objects
// of the whole device. On hardware, such a call on one thread invalidated a capture on another
// thread, even in the thread-local capture mode. There is one lock per process because the driver's
// state is per process.
std::recursive_mutex& capture_mutex();

}  // namespace quire::cuda
