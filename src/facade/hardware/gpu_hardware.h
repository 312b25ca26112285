// Describes the GPU that the program runs on, as hardware of the roofline.
#pragma once

#include "base/result.h"
#include "roofline/hardware/hardware.h"

namespace quire {

// Measures a GPU's read bandwidth and bf16 products, on a device of its own beside the engine's and
// with memory that is free at the time; what is not measured is taken from the description of a
// similar GPU. Takes some tenths of a second. kUnavailable: there is no usable GPU.
Result<Hardware> probe_gpu();

// What is kept of an earlier probe of this GPU, else a new one, which is kept for the next start.
// `again`: what is kept does not count.
Result<Hardware> gpu_hardware(bool again);

}  // namespace quire
