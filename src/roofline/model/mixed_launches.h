// Compares measured launches of attention over prompt chunks and decodes together with the
// predictions of the two ways to run both.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "roofline/model/kernel_time.h"

namespace quire {

// One chunk and `num_decodes` single tokens, each of which sees `decode_context` keys.
struct MixedSample {
  AttentionWork work;
  PromptChunk chunk;
  int32_t num_decodes = 0;
  int32_t decode_context = 0;
  double us = 0;
};

// Reads CSV with the columns num_heads, num_key_value_heads, head_dim, kv_cache_dtype, chunk,
// kv_prefill, n_decode, kv_decode and us, and ignores others (bench/roofline writes it). The text
// is not trusted; errors name file and row.
Result<std::vector<MixedSample>> read_mixed_csv(std::string_view text, std::string_view where);

// The mean absolute and the mean signed error in percent.
struct MixedReport {
  int64_t num_samples = 0;
  double apart_mape = 0;  // one launch for each kind, times added
  double apart_bias = 0;
  double joined_mape = 0;  // one launch, joined_decode_time()
  double joined_bias = 0;
};
MixedReport judge_mixed(std::span<const MixedSample> samples, const Hardware& hardware);

}  // namespace quire
