// One GPU: its memory, copies, events and captured graphs. Everything that is queued on a stream
// runs later, in order; memory it names must live and keep its content until then.
//
//   QUIRE_ASSIGN_OR_RETURN(auto device, open_cuda_device({.ordinal = 0}, ops));
//   QUIRE_ASSIGN_OR_RETURN(Arena memory, device->allocate(bytes));
//   device->copy_to_device(memory.allocate_bytes(n), pinned, n);
//   kernel(device->stream(), …);
//   QUIRE_RETURN_IF_ERROR(device->synchronize());
//
// Implementations: cuda/ (absent: no_cuda/), and EmulatedDevice, which runs the kernels on the CPU.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "device/gpu_stream.h"
#include "tensor/arena.h"

namespace quire {

struct DeviceInfo {
  std::string name;
  int64_t total_memory_bytes = 0;
  int64_t free_memory_bytes = 0;  // when asked
  GpuInfo gpu{};
};

// A sequence of kernels that is queued by one call. Launch it on the device it was captured on.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void launch() = 0;
};

// A point in the device's queue.
class Event {
 public:
  virtual ~Event() = default;
  virtual void record() = 0;  // here, now; may be recorded again
  virtual Status wait() = 0;  // until the last recorded point is reached; the host sleeps or spins
  virtual bool is_reached() = 0;
};

// One thread at a time. An error that the device reports (in any call or kernel) comes out of the
// next synchronize() or Event::wait(); after a fault of the device itself every later call fails.
class Device {
 public:
  virtual ~Device() = default;

  virtual DeviceInfo info() const = 0;
  virtual GpuStream& stream() = 0;

  // Zeroed memory of the device. kResourceExhausted: there is not so much.
  virtual Result<Arena> allocate(int64_t num_bytes) = 0;
  // Memory of the host that the device copies from and to at full speed, in the background.
  virtual Result<Arena> allocate_pinned(int64_t num_bytes) = 0;

  // Queued copies. From memory that is not pinned the copy may wait until it has begun.
  virtual void copy_to_device(void* to, const void* from, int64_t num_bytes) = 0;
  virtual void copy_to_host(void* to, const void* from, int64_t num_bytes) = 0;
  virtual void copy_on_device(void* to, const void* from, int64_t num_bytes) = 0;
  virtual void set_zero(void* to, int64_t num_bytes) = 0;

  virtual Result<std::unique_ptr<Event>> make_event() = 0;
  // Until everything queued is done.
  virtual Status synchronize() = 0;

  // What is queued from begin_capture() to end_capture() is recorded and not run.
  virtual Status begin_capture() = 0;
  virtual Result<std::unique_ptr<Graph>> end_capture() = 0;
};

}  // namespace quire
