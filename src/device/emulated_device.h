// An emulated device is a GPU played by the CPU, for tests of what runs above and inside of kernels
// where there is no GPU. Nothing that is queued runs before somebody waits for it, so that a result
// which is read too early, or a buffer which is reused too early, shows.
#pragma once

#include <memory>

#include "device/device.h"

namespace quire {

// When the copies of a CopyStream run: as late as what waits for them allows, as early as what they
// wait for does, or each of them at one or the other, as a seed says.
enum class EmulatedCopies : uint8_t { kLate, kEarly, kMixed };

struct EmulatedDeviceOptions {
  int32_t num_sms = 3;
  int64_t memory_bytes = int64_t{1} << 30;
  int32_t compute_capability = 80;
  int64_t shared_bytes_per_block = 227 << 10;
  int32_t num_failing_captures = 0;  // the first ones end with an error
  EmulatedCopies copies = EmulatedCopies::kMixed;
};

// `ops` are kernels that run on the CPU (kernels/cuda/emulation/ops.h).
std::unique_ptr<Device> make_emulated_device(const EmulatedDeviceOptions& options,
                                             const OpTable& ops);

}  // namespace quire
