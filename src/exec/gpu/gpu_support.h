// Checks whether a GPU can run a model.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "device/gpu_stream.h"
#include "exec/model_plan.h"

namespace quire {

// Fails if the GPU does not support something of the planned model (kUnimplemented) or of its
// options (kInvalidArgument). `num_table_entries` counts the entries of all block tables.
Status check_gpu_support(const ModelPlan& plan, const GpuInfo& gpu, int64_t num_table_entries);

}  // namespace quire
