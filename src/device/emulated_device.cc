#include "device/emulated_device.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "base/check.h"

namespace quire {
namespace {

class EmulatedCopyQueue final : public CopyQueue {
 public:
  Status copy_to_device(void* to, const void* from, int64_t num_bytes) override {
    std::memcpy(to, from, static_cast<size_t>(num_bytes));
    return {};
  }
};

class EmulatedDevice;

// Runs copies in order, each once the device has done as much work as the copy waits for.
class EmulatedCopyStream final : public CopyStream {
 public:
  explicit EmulatedCopyStream(EmulatedDevice& device) : device_(device) {}
  ~EmulatedCopyStream() override;
  void copy_to_device(void* to, const void* from, int64_t num_bytes) override {
    add(to, from, num_bytes);
  }
  void copy_to_host(void* to, const void* from, int64_t num_bytes) override {
    add(to, from, num_bytes);
  }
  void wait_for_device() override;
  void hold_device() override;

  // Runs copies from the front as long as none is late and the work that each waits for is done.
  void run_early();

 private:
  struct Copy {
    void* to;
    const void* from;
    int64_t num_bytes;
    size_t after;  // runs after this many pieces of the device's work
    bool is_late;  // runs only when something waits for it
  };
  void add(void* to, const void* from, int64_t num_bytes);
  void run_first();
  void run_up_to(size_t end);

  EmulatedDevice& device_;
  std::deque<Copy> copies_;
  size_t num_done_ = 0;  // all copies ever done
  size_t after_ = 0;
  uint32_t random_ = 1;
};

class EmulatedDevice final : public Device {
 public:
  EmulatedDevice(const EmulatedDeviceOptions& options, const OpTable& ops)
      : options_(options),
        stream_(&queue_,
                {.num_sms = options.num_sms,
                 .compute_capability = options.compute_capability,
                 .shared_bytes_per_block = options.shared_bytes_per_block,
                 .shared_bytes_per_sm = options.shared_bytes_per_block + (1 << 10)},
                ops) {}

  DeviceInfo info() const override {
    return {.name = "emulated",
            .total_memory_bytes = options_.memory_bytes,
            .free_memory_bytes = options_.memory_bytes - used_,
            .gpu = stream_.info()};
  }
  GpuStream& stream() override { return stream_; }

  Result<Arena> allocate(int64_t num_bytes) override {
    if (num_bytes > options_.memory_bytes - used_) {
      return resource_exhausted("device memory: expected {} free bytes, got {}", num_bytes,
                                options_.memory_bytes - used_);
    }
    used_ += num_bytes;
    return Arena::create(num_bytes);
  }
  Result<Arena> allocate_pinned(int64_t num_bytes) override { return Arena::create(num_bytes); }

  void copy_to_device(void* to, const void* from, int64_t num_bytes) override {
    queue_copy(to, from, num_bytes);
  }
  void copy_to_host(void* to, const void* from, int64_t num_bytes) override {
    queue_copy(to, from, num_bytes);
  }
  void copy_on_device(void* to, const void* from, int64_t num_bytes) override {
    queue_copy(to, from, num_bytes);
  }
  void set_zero(void* to, int64_t num_bytes) override {
    stream_.emulated()->push_back([=] { std::memset(to, 0, static_cast<size_t>(num_bytes)); });
  }

  Result<std::unique_ptr<Event>> make_event() override;
  Result<std::unique_ptr<CopyQueue>> make_copy_queue() override {
    return std::unique_ptr<CopyQueue>(std::make_unique<EmulatedCopyQueue>());
  }
  Result<std::unique_ptr<CopyStream>> make_copy_stream() override {
    auto copies = std::make_unique<EmulatedCopyStream>(*this);
    copy_streams_.push_back(copies.get());
    return std::unique_ptr<CopyStream>(std::move(copies));
  }
  Status synchronize() override {
    run_up_to(queue_.size());
    return stream_.take_error();
  }

  Status reach(Device& /*other*/) override { return {}; }

  Status begin_capture() override {
    if (stream_.emulated() != &queue_) return internal_error("capture: already capturing");
    stream_.set_emulated(&captured_);
    return {};
  }
  Result<std::unique_ptr<Graph>> end_capture() override;

 private:
  friend class EmulatedCopyStream;
  friend class EmulatedEvent;
  friend class EmulatedGraph;

  void queue_copy(void* to, const void* from, int64_t num_bytes) {
    stream_.emulated()->push_back([=] { std::memcpy(to, from, static_cast<size_t>(num_bytes)); });
  }
  size_t num_queued() const { return num_done_ + queue_.size(); }
  void run_up_to(size_t end) {
    for (size_t i = 0; i < end; ++i) {
      queue_[i]();
      ++num_done_;
      for (EmulatedCopyStream* copies : copy_streams_) copies->run_early();
    }
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(end));
  }

  EmulatedDeviceOptions options_;
  EmulatedWork queue_;
  EmulatedWork captured_;
  size_t num_done_ = 0;  // all work ever done; queue_[i] is work number num_done_ + i
  std::vector<EmulatedCopyStream*> copy_streams_;
  int64_t used_ = 0;
  GpuStream stream_;
};

EmulatedCopyStream::~EmulatedCopyStream() { std::erase(device_.copy_streams_, this); }

void EmulatedCopyStream::add(void* to, const void* from, int64_t num_bytes) {
  random_ = random_ * 1664525u + 1013904223u;
  const EmulatedCopies when = device_.options_.copies;
  const bool is_late =
      when == EmulatedCopies::kLate || (when == EmulatedCopies::kMixed && random_ >> 31 != 0);
  copies_.push_back({to, from, num_bytes, after_, is_late});
  run_early();
}

void EmulatedCopyStream::run_first() {
  const Copy& copy = copies_.front();
  QUIRE_CHECK(copy.after <= device_.num_done_, "a copy runs before what it waits for");
  std::memcpy(copy.to, copy.from, static_cast<size_t>(copy.num_bytes));
  copies_.pop_front();
  ++num_done_;
}

void EmulatedCopyStream::run_early() {
  while (!copies_.empty() && !copies_.front().is_late && copies_.front().after <= device_.num_done_)
    run_first();
}

void EmulatedCopyStream::run_up_to(size_t end) {
  while (num_done_ < end) run_first();
}

void EmulatedCopyStream::wait_for_device() { after_ = device_.num_queued(); }

void EmulatedCopyStream::hold_device() {
  const size_t end = num_done_ + copies_.size();
  device_.stream_.emulated()->push_back([this, end] { run_up_to(end); });
}

class EmulatedGraph final : public Graph {
 public:
  EmulatedGraph(EmulatedDevice& device, EmulatedWork work)
      : device_(device), work_(std::move(work)) {}
  void launch() override {
    device_.queue_.insert(device_.queue_.end(), work_.begin(), work_.end());
  }

 private:
  EmulatedDevice& device_;
  EmulatedWork work_;
};

class EmulatedEvent final : public Event {
 public:
  explicit EmulatedEvent(EmulatedDevice& device) : device_(device) {}
  void record() override { at_ = device_.num_queued(); }
  bool is_reached() override { return at_ <= device_.num_done_; }
  Status wait() override {
    if (!is_reached()) device_.run_up_to(at_ - device_.num_done_);
    return device_.stream_.take_error();
  }

 private:
  EmulatedDevice& device_;
  size_t at_ = 0;
};

Result<std::unique_ptr<Event>> EmulatedDevice::make_event() {
  return std::unique_ptr<Event>(std::make_unique<EmulatedEvent>(*this));
}

Result<std::unique_ptr<Graph>> EmulatedDevice::end_capture() {
  if (stream_.emulated() != &captured_) return internal_error("capture: none was begun");
  stream_.set_emulated(&queue_);
  EmulatedWork work = std::exchange(captured_, {});
  if (options_.num_failing_captures > 0) {
    --options_.num_failing_captures;
    return internal_error("capture: it was to fail");
  }
  QUIRE_RETURN_IF_ERROR(stream_.take_error());
  return std::unique_ptr<Graph>(std::make_unique<EmulatedGraph>(*this, std::move(work)));
}

}  // namespace

std::unique_ptr<Device> make_emulated_device(const EmulatedDeviceOptions& options,
                                             const OpTable& ops) {
  return std::make_unique<EmulatedDevice>(options, ops);
}

}  // namespace quire
