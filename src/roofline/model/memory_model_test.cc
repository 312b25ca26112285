#include "roofline/model/memory_model.h"

#include <gtest/gtest.h>

#include "roofline/testing/test_models.h"

namespace quire {
namespace {

constexpr double kMiB = 1 << 20;

MemoryEstimate estimate(const char* hardware, const MemoryOptions& options) {
  return estimate_memory(test::model_of(test::kLlama31_8B), find_hardware(hardware).value(), {},
                         options)
      .value();
}

MemoryOptions options_of(const ServerMemory& server) {
  return {.utilisation = 0.9, .max_num_batched_tokens = 2048, .server = server};
}

TEST(MemoryModel, SmallCardsKeepTheirBlocks) {
  const MemoryEstimate planned = estimate("rtx-4090", {.max_num_batched_tokens = 2048});
  // 90 % of 23.6 GiB less 15 GiB of weights, 0.5 of the driver, and 0.25 each of activations and
  // logits.
  EXPECT_NEAR(planned.kv_bytes / kMiB, 5.2 * 1024, 0.25 * 1024);
  const MemoryEstimate profiled =
      estimate("rtx-4090", options_of({.context_bytes = 200 * kMiB, .bytes_per_logit = 20}));
  EXPECT_NEAR(profiled.kv_bytes / kMiB, 5.4 * 1024, 0.25 * 1024);
}

TEST(MemoryModel, TheHigherPeakCounts) {
  ServerMemory server{.bytes_per_logit = 20};
  MemoryOptions options = options_of(server);
  const double sampling = estimate("h100-sxm", options).activation_bytes;
  options.max_num_seqs = 1;
  const double layer = estimate("h100-sxm", options).activation_bytes;
  EXPECT_GT(sampling, layer);
  options.max_num_seqs = 2;
  EXPECT_EQ(estimate("h100-sxm", options).activation_bytes, layer) << "the layer is the peak";
}

TEST(MemoryModel, ServersTakeSharesOfDifferentThings) {
  const double all = estimate("h100-sxm", options_of({})).kv_bytes;
  const MemoryEstimate of_static = estimate("h100-sxm", options_of({.budget = KvBudget::kStatic}));
  const MemoryEstimate of_free = estimate("h100-sxm", options_of({.budget = KvBudget::kFree}));
  EXPECT_DOUBLE_EQ(of_static.kv_bytes, all + of_static.activation_bytes)
      << "activations are beyond the share";
  EXPECT_DOUBLE_EQ(of_free.kv_bytes, all + 0.1 * (of_free.weight_bytes + of_free.activation_bytes));
}

}  // namespace
}  // namespace quire
