// These are whole attention modules of a latent-attention layer (projections and attention):
// measured, and what the sum of the layer's kernels says of them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "roofline/hardware/hardware.h"

namespace quire {

// A sample is `batch` requests of num_tokens each after `context` keys, on a device with so many
// heads.
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
// kv_cache_dtype, gemm_type and latency (ms). The table names the model and not its sizes, so rows
// of others than DeepSeek-V3 are left out. The text is hostile until checked; errors name file and
// line.
Result<std::vector<LatentModuleSample>> read_latent_modules_csv(std::string_view text,
                                                                std::string_view where);

// The errors are in percent of the kernel sum; nothing is fitted.
struct LatentModuleReport {
  int64_t num_samples = 0;
  double mape = 0;
  double bias = 0;  // mean signed error
};
// Judges the rows with this cache format. kInvalidArgument: there are none.
Result<LatentModuleReport> judge_latent_modules(std::span<const LatentModuleSample> samples,
                                                const NumberFormat& weights, const NumberFormat& kv,
                                                const Hardware& hardware);

}  // namespace quire
