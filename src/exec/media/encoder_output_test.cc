#include "exec/media/encoder_output.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace quire {
namespace {

TEST(EncoderOutput, MustBeFinite) {
  using Limits = std::numeric_limits<float>;
  std::vector<float> values = {0.0f, Limits::max(), Limits::lowest(), Limits::denorm_min()};
  EXPECT_TRUE(check_encoder_output("image", values).ok());
  for (const float wrong : {Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity()}) {
    values[2] = wrong;
    EXPECT_EQ(check_encoder_output("image", values).message(),
              "image: expected finite values as the output of the model's encoder, got NaN or "
              "infinity");
  }
}

}  // namespace
}  // namespace quire
