// An emulated device runs a GPU's work on the CPU, to test kernels and the code above them where
// there is no GPU. Queued work runs only when the host waits for it, so a test fails when a result
// is read too early or a buffer is reused too early.
#pragma once

#include <memory>

#include "device/device.h"

namespace quire {

// When the copies of a CopyStream run: kLate runs each as late as the work that waits for it
// allows, kEarly as early as the work that it waits for allows, and kMixed draws one of the two for
// each copy from a pseudorandom sequence.
enum class EmulatedCopies : uint8_t { kLate, kEarly, kMixed };

struct EmulatedDeviceOptions {
  int32_t num_sms = 3;
  int64_t memory_bytes = int64_t{1} << 30;
  int32_t compute_capability = 80;
  int64_t shared_bytes_per_block = 227 << 10;
  int32_t num_failing_captures = 0;  // how many captures fail, from the first one on
  EmulatedCopies copies = EmulatedCopies::kMixed;
};

// `ops` are kernels that run on the CPU (kernels/cuda/emulation/ops.h).
std::unique_ptr<Device> make_emulated_device(const EmulatedDeviceOptions& options,
                                             const OpTable& ops);

}  // namespace quire
