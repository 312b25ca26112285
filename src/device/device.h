// A Device is one GPU: its memory, copies, events and captured graphs. Everything that is queued on
// a stream runs later, in order; memory that it names must live and keep its content until then.
//
//   QUIRE_ASSIGN_OR_RETURN(auto device, open_cuda_device({.ordinal = 0}, ops));
//   QUIRE_ASSIGN_OR_RETURN(Arena memory, device->allocate(bytes));
//   device->copy_to_device(memory.allocate_bytes(n), pinned, n);
//   kernel(device->stream(), …);
//   QUIRE_RETURN_IF_ERROR(device->synchronize());
//
// Implementations are cuda/ (where absent, no_cuda/), and EmulatedDevice, which runs the kernels on
// the CPU.
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
  int64_t free_memory_bytes = 0;  // at the time of the question
  GpuInfo gpu{};
};

// A Graph is a sequence of kernels that one call queues. It is launched on the device that it was
// captured on.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void launch() = 0;
};

// An Event is a point in the device's queue.
class Event {
 public:
  virtual ~Event() = default;
  virtual void record() = 0;  // sets the point to here and now; may be called again
  // Returns when the last recorded point is reached; the host sleeps or spins meanwhile.
  virtual Status wait() = 0;
  virtual bool is_reached() = 0;
};

// A CopyQueue brings memory to the device beside what is queued there, on any one thread at a time,
// also while another uses the device.
class CopyQueue {
 public:
  virtual ~CopyQueue() = default;
  // Returns when the copy is done. Nothing that runs on the device may use `to` meanwhile.
  virtual Status copy_to_device(void* to, const void* from, int64_t num_bytes) = 0;
};

// A CopyStream is a second queue of the device: copies run beside what is queued on stream(), in their
// order, and the two wait for each other where they are told to. The thread that uses the device
// uses it. Whoever ends it has made the device wait for its copies, and waited for the device.
class CopyStream {
 public:
  virtual ~CopyStream() = default;
  // As Device's.
  virtual void copy_to_device(void* to, const void* from, int64_t num_bytes) = 0;
  virtual void copy_to_host(void* to, const void* from, int64_t num_bytes) = 0;
  // What is queued here from now on begins after all that is queued on stream() by now.
  virtual void wait_for_device() = 0;
  // What is queued on stream() from now on begins after all that is queued here by now. Not while a
  // graph is captured.
  virtual void hold_device() = 0;
};

// One thread at a time uses a device. An error that the device reports (in any call or kernel)
// comes out of the next synchronize() or Event::wait(); after a fault of the device itself every
// later call fails.
class Device {
 public:
  virtual ~Device() = default;

  virtual DeviceInfo info() const = 0;
  virtual GpuStream& stream() = 0;

  // Returns zeroed memory of the device. kResourceExhausted: there is not so much.
  virtual Result<Arena> allocate(int64_t num_bytes) = 0;
  // Returns memory of the host that the device copies from and to at full speed, in the background.
  virtual Result<Arena> allocate_pinned(int64_t num_bytes) = 0;

  // These copies are queued. From memory that is not pinned the copy may wait until it has begun.
  virtual void copy_to_device(void* to, const void* from, int64_t num_bytes) = 0;
  virtual void copy_to_host(void* to, const void* from, int64_t num_bytes) = 0;
  virtual void copy_on_device(void* to, const void* from, int64_t num_bytes) = 0;
  virtual void set_zero(void* to, int64_t num_bytes) = 0;

  virtual Result<std::unique_ptr<Event>> make_event() = 0;
  virtual Result<std::unique_ptr<CopyQueue>> make_copy_queue() = 0;
  virtual Result<std::unique_ptr<CopyStream>> make_copy_stream() = 0;
  // Returns when everything queued on stream() is done.
  virtual Status synchronize() = 0;

  // From now on kernels of this device read and write what is allocated on `other`, which may be the
  // same GPU. kUnavailable: the two GPUs have no way to each other's memory.
  virtual Status reach(Device& other) = 0;

  // What is queued from begin_capture() to end_capture() is recorded and does not run.
  virtual Status begin_capture() = 0;
  virtual Result<std::unique_ptr<Graph>> end_capture() = 0;
};

}  // namespace quire
