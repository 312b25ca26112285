// A Device is one GPU: its memory, copies, events and captured graphs. Work that is queued on a
// stream runs later, in order; memory that the work uses must stay allocated and unchanged until
// then.
//
//   QUIRE_ASSIGN_OR_RETURN(auto device, open_cuda_device({.ordinal = 0}, ops));
//   QUIRE_ASSIGN_OR_RETURN(Arena memory, device->allocate(bytes));
//   device->copy_to_device(memory.allocate_bytes(n), pinned, n);
//   kernel(device->stream(), …);
//   QUIRE_RETURN_IF_ERROR(device->synchronize());
//
// The implementations are cuda/ (no_cuda/ in builds without CUDA) and EmulatedDevice, which runs
// the kernels on the CPU.
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
  int64_t free_memory_bytes = 0;  // when info() was called
  GpuInfo gpu{};
};

// A Graph is a sequence of kernels that one call queues. It is launched on the device that it was
// captured on.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void launch() = 0;
};

// An Event marks a point in the device's queue.
class Event {
 public:
  virtual ~Event() = default;
  virtual void record() = 0;  // sets the point to the current end of the queue; may be repeated
  // Returns when the device has reached the last recorded point; the host sleeps or spins
  // meanwhile.
  virtual Status wait() = 0;
  virtual bool is_reached() = 0;
};

// A CopyQueue copies memory to the device while the device runs other queued work. One thread at a
// time may use it, also while another thread uses the device.
class CopyQueue {
 public:
  virtual ~CopyQueue() = default;
  // Returns when the copy is done. Nothing that runs on the device may use `to` meanwhile.
  virtual Status copy_to_device(void* to, const void* from, int64_t num_bytes) = 0;
};

// A CopyStream is a second queue of the device. Its copies run in order, beside the work on
// stream(); each of the two queues waits for the other only where it is told to. The thread that
// uses the device also uses the CopyStream. Before destroying it, the caller must call
// hold_device() and then wait for the device.
class CopyStream {
 public:
  virtual ~CopyStream() = default;
  // Queues a copy, as Device::copy_to_device() does.
  virtual void copy_to_device(void* to, const void* from, int64_t num_bytes) = 0;
  virtual void copy_to_host(void* to, const void* from, int64_t num_bytes) = 0;
  // Makes copies queued here later wait for all work that is on stream() at this moment.
  virtual void wait_for_device() = 0;
  // Makes work queued on stream() later wait for all copies that are queued here at this moment.
  // Must not be called while a graph is captured.
  virtual void hold_device() = 0;
};

// One thread at a time uses a device. An error that the device reports (in any call or kernel) is
// returned by the next synchronize() or Event::wait(); after a fault of the device itself every
// later call fails.
class Device {
 public:
  virtual ~Device() = default;

  virtual DeviceInfo info() const = 0;
  virtual GpuStream& stream() = 0;

  // Returns zeroed memory of the device. kResourceExhausted: the device does not have that much.
  virtual Result<Arena> allocate(int64_t num_bytes) = 0;
  // Returns memory of the host that the device copies from and to at full speed, in the background.
  virtual Result<Arena> allocate_pinned(int64_t num_bytes) = 0;

  // Queues a copy. If the host memory is not pinned, the call may block until the copy has begun.
  virtual void copy_to_device(void* to, const void* from, int64_t num_bytes) = 0;
  virtual void copy_to_host(void* to, const void* from, int64_t num_bytes) = 0;
  virtual void copy_on_device(void* to, const void* from, int64_t num_bytes) = 0;
  virtual void set_zero(void* to, int64_t num_bytes) = 0;

  virtual Result<std::unique_ptr<Event>> make_event() = 0;
  virtual Result<std::unique_ptr<CopyQueue>> make_copy_queue() = 0;
  virtual Result<std::unique_ptr<CopyStream>> make_copy_stream() = 0;
  // Returns when everything queued on stream() is done.
  virtual Status synchronize() = 0;

  // Lets kernels of this device read and write memory that was allocated on `other`, which may be
  // the same GPU. kUnavailable: the two GPUs cannot reach each other's memory.
  virtual Status reach(Device& other) = 0;

  // Work that is queued from begin_capture() to end_capture() is recorded and does not run.
  virtual Status begin_capture() = 0;
  virtual Result<std::unique_ptr<Graph>> end_capture() = 0;
};

}  // namespace quire
