// Describes the GPU that the program runs on, as hardware of the roofline.
#pragma once

#include "base/result.h"
#include "roofline/hardware/hardware.h"

namespace quire {

// Measures a GPU's read bandwidth and bf16 products, on a device of its own beside the engine's and
// in memory that is free at the time. All other values are those of a similar GPU's description.
// Takes some tenths of a second. kUnavailable: there is no usable GPU.
Result<Hardware> probe_gpu();

// Returns the kept result of an earlier probe of this GPU, or else probes it and keeps the result
// for the next start. `again`: probes even if a result is kept.
Result<Hardware> gpu_hardware(bool again);

}  // namespace quire
