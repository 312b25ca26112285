// Compares measured times of whole attention modules of latent-attention layers (projections and
// attention) with the sum of the layer's kernels.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "roofline/hardware/hardware.h"

namespace quire {

// `batch` requests of num_tokens each after `context` keys, on a device with num_heads heads.
struct LatentModuleSample {
  int32_t num_heads = 0;
  int32_t batch = 0;
  int32_t num_tokens = 0;  // 1 with context > 0: decode
  int32_t context = 0;
  NumberFormat weights;
  NumberFormat kv;
  double us = 0;
};

// Reads CSV with the columns of aiconfigurator: model, num_heads, batch_size, isl, step,
// kv_cache_dtype, gemm_type and latency (ms). The table has the model's name but not its sizes, so
// rows of models other than DeepSeek-V3 are left out. The text is not trusted; errors name file and
// row.
Result<std::vector<LatentModuleSample>> read_latent_modules_csv(std::string_view text,
                                                                std::string_view where);

// Errors in percent of the kernel sum.
struct LatentModuleReport {
  int64_t num_samples = 0;
  double mape = 0;
  double bias = 0;  // mean signed error
};
// Tests the rows with this cache format, and fits nothing. kInvalidArgument: there are none.
Result<LatentModuleReport> judge_latent_modules(std::span<const LatentModuleSample> samples,
                                                const NumberFormat& weights, const NumberFormat& kv,
                                                const Hardware& hardware);

}  // namespace quire
