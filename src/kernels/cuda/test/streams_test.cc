// The ops of several residual streams and of sparse MLPs, on a GPU.
#include <gtest/gtest.h>

#include "kernels/api/streams/residual_streams.h"
#include "kernels/cuda/test/test_device.h"
#include "kernels/testing/test_support.h"

namespace quire {
namespace {

using gpu_test::rounded;
using kernel_test::close;
using kernel_test::random_floats;

constexpr double kTolerance = 4e-5;

struct Case {
  int64_t num_tokens, num_streams, size;
};
constexpr Case kCases[] = {{1, 1, 1}, {3, 2, 7}, {5, 3, 300}, {4, 16, 100}};

// All arrays of a case, on the host or the device.
struct Rows {
  float* streams;
  float* made;
  const float* coefs;
  const float* scale;
};

using Op = void (*)(Stream*, const Case&, const Rows&);  // without a stream: calls the reference

void predict(Stream* stream, const Case& shape, const Rows& rows) {
  const PredictStreamsParams params{.streams = rows.streams,
                                    .coefs = rows.coefs,
                                    .active_out = rows.made,
                                    .active = shape.num_streams / 2,
                                    .num_tokens = shape.num_tokens,
                                    .num_streams = shape.num_streams,
                                    .hidden_size = shape.size};
  stream == nullptr ? ref::predict_streams(params) : predict_streams(*stream, params);
}

void correct(Stream* stream, const Case& shape, const Rows& rows) {
  const CorrectStreamsParams params{.streams = rows.streams,
                                    .made = rows.made,
                                    .coefs = rows.coefs,
                                    .active = shape.num_streams - 1,
                                    .active_out = rows.made,
                                    .scale = shape.size % 2 == 1 ? rows.scale : nullptr,
                                    .num_tokens = shape.num_tokens,
                                    .num_streams = shape.num_streams,
                                    .hidden_size = shape.size};
  stream == nullptr ? ref::correct_streams(params) : correct_streams(*stream, params);
}

// The last stream gets the magnitude of the computed rows.
void match(Stream* stream, const Case& shape, const Rows& rows) {
  const int64_t stride = shape.num_streams * shape.size;
  const MatchMagnitudeParams params{.x = rows.streams + stride - shape.size,
                                    .x_stride = stride,
                                    .like = rows.made,
                                    .like_stride = shape.size,
                                    .num_tokens = shape.num_tokens,
                                    .hidden_size = shape.size};
  stream == nullptr ? ref::match_magnitude(params) : match_magnitude(*stream, params);
}

void add(Stream* stream, const Case& shape, const Rows& rows) {
  const AddScaledParams params{.x = rows.streams,
                               .x_stride = shape.num_streams * shape.size,
                               .y = rows.made,
                               .y_stride = shape.size,
                               .scale = 0.7f,
                               .num_tokens = shape.num_tokens,
                               .hidden_size = shape.size};
  stream == nullptr ? ref::add_scaled(params) : add_scaled(*stream, params);
}

void cut(Stream* stream, const Case& shape, const Rows& rows) {
  const CutBelowParams params{.x = rows.streams,
                              .x_stride = shape.num_streams * shape.size,
                              .deviations = shape.size % 2 == 1 ? 0.5f : -0.25f,
                              .num_tokens = shape.num_tokens,
                              .size = shape.size};
  stream == nullptr ? ref::cut_below(params) : cut_below(*stream, params);
}

class GpuStreams : public gpu_test::GpuTest {};

TEST_F(GpuStreams, MatchReference) {
  for (const Case& shape : kCases) {
    for (const Op op : {predict, correct, match, add, cut}) {
      auto streams = random_floats(1, shape.num_tokens * shape.num_streams * shape.size, 3.0f);
      auto made = random_floats(2, shape.num_tokens * shape.size, 3.0f);
      const auto coefs = random_floats(3, shape.num_tokens * shape.num_streams * shape.num_streams);
      const auto scale = random_floats(4, shape.size);
      // The first token's magnitude is below the floor.
      for (int64_t i = 0; i < shape.num_streams * shape.size; ++i) streams[i] *= 1e-4f;
      const Rows rows{upload(streams), upload(made), upload(coefs), upload(scale)};
      op(&stream(), shape, rows);
      const auto got = download<float>(rows.streams, std::ssize(streams));
      const auto got_made = download<float>(rows.made, std::ssize(made));
      op(nullptr, shape, {streams.data(), made.data(), coefs.data(), scale.data()});
      ASSERT_TRUE(close(got.data(), streams.data(), std::ssize(got), kTolerance)) << shape.size;
      ASSERT_TRUE(close(got_made.data(), made.data(), std::ssize(made), kTolerance)) << shape.size;
    }
  }
}

// The inside of an MLP is bf16.
TEST_F(GpuStreams, CutsRowsOfBf16) {
  constexpr int64_t kTokens = 3, kSize = 130, kStride = 140;
  auto want = rounded(random_floats(1, kTokens * kStride, 2.0f));
  const Activations x = upload_as(DType::kBF16, want);
  CutBelowParams params{
      .x = x, .x_stride = kStride, .deviations = 0.8f, .num_tokens = kTokens, .size = kSize};
  cut_below(stream(), params);
  const auto got = download_floats(x, kTokens * kStride);
  params.x = want.data();
  ref::cut_below(params);
  EXPECT_TRUE(close(got.data(), want.data(), kTokens * kStride, 0x1p-7));
}

}  // namespace
}  // namespace quire
