// A model's weights on a GPU: made in host memory by the loader of the CPU, copied in one piece,
// and every pointer moved along.
#pragma once

#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "tensor/arena.h"
#include "weights/checkpoint.h"

namespace quire {

// kUnimplemented names what a GPU does not take: quantized matrices and tables.
Status check_gpu_weights(const std::vector<WeightSlot>& slots);

// Bytes of device memory: `arena_bytes` of the host, and tables that lie in the checkpoint's
// mapping.
int64_t gpu_weight_bytes(const std::vector<WeightSlot>& slots, const LoadPlan& checkpoint,
                         int64_t arena_bytes);

// `host` holds the filled slots from its beginning; it may go when this returns. The slots then
// point into the memory that is returned.
Result<Arena> upload_weights(Device& device, const std::vector<WeightSlot>& slots, Arena& host,
                             int64_t device_bytes);

}  // namespace quire
