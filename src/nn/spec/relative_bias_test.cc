#include "nn/spec/relative_bias.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/api/attention.h"

namespace quire {
namespace {

// The distances at which the buckets of transformers' MPNet begin, for keys behind the query. Keys
// before it have the first half of the buckets.
TEST(RelativeBias, BucketsAreTheOracles) {
  constexpr int32_t kBegins[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91};
  const RelativeBiasSpec spec{.num_buckets = 32};
  int32_t bucket = 0;
  for (int32_t distance = 0; distance <= 300; ++distance) {
    if (bucket + 1 < 16 && distance == kBegins[bucket + 1]) ++bucket;
    EXPECT_EQ(spec.bucket_of(-distance), bucket) << distance;
    if (distance > 0) {
      EXPECT_EQ(spec.bucket_of(distance), 16 + bucket) << distance;
    }
  }
}

// The same for T5's decoder, which never sees keys behind the query.
TEST(RelativeBias, CausalBucketsAreTheOracles) {
  constexpr int32_t kBegins[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                 16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113};
  const RelativeBiasSpec spec{.num_buckets = 32, .causal = true};
  int32_t bucket = 0;
  for (int32_t distance = 0; distance <= 300; ++distance) {
    if (bucket + 1 < 32 && distance == kBegins[bucket + 1]) ++bucket;
    EXPECT_EQ(spec.bucket_of(-distance), bucket) << distance;
    EXPECT_EQ(spec.bucket_of(distance), distance == 0 ? bucket : 0) << distance;
  }
}

TEST(RelativeBias, RowsOfHeadsRepeatTheirEnds) {
  const RelativeBiasSpec spec{.num_buckets = 8, .max_distance = 6};
  std::vector<float> table;
  for (int32_t i = 0; i < 16; ++i) table.push_back(static_cast<float>(i));  // [8, 2]
  const int64_t stride = position_bias_stride(6);
  std::vector<float> rows(static_cast<size_t>(2 * stride), -1.0f);
  expand_relative_bias(spec, table.data(), 2, rows.data());
  const auto at = [&](int64_t head, int64_t distance) {
    return rows[static_cast<size_t>(head * stride + kPositionBiasPadding + 6 + distance)];
  };
  EXPECT_EQ(at(0, 0), 0.0f);
  EXPECT_EQ(at(1, 0), 1.0f);
  EXPECT_EQ(at(0, -1), 2.0f);
  EXPECT_EQ(at(0, 1), 10.0f) << "bucket 5 of the second half";
  EXPECT_EQ(at(1, -6), 7.0f);
  EXPECT_EQ(at(1, -70), at(1, -6));
  EXPECT_EQ(at(0, 70), at(0, 6));
}

}  // namespace
}  // namespace quire
