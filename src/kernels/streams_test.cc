#include <gtest/gtest.h>

#include "kernels/api/streams/residual_streams.h"
#include "kernels/testing/test_support.h"

namespace quire {
namespace {

using kernel_test::close;
using kernel_test::Host;
using kernel_test::isas;
using kernel_test::random_floats;
using kernel_test::same_bits;

constexpr double kTolerance = 2e-5;

struct Case {
  int64_t num_tokens, num_streams, size;
};
constexpr Case kCases[] = {{1, 1, 1},   {1, 4, 2048}, {3, 2, 7},
                           {5, 3, 255}, {4, 4, 257},  {40, 16, 100}};

// All arrays of a case, which an op changes.
struct Rows {
  explicit Rows(const Case& shape)
      : streams(random_floats(1, shape.num_tokens * shape.num_streams * shape.size, 3.0f)),
        made(random_floats(2, shape.num_tokens * shape.size, 3.0f)),
        coefs(random_floats(3, shape.num_tokens * shape.num_streams * shape.num_streams)),
        scale(random_floats(4, shape.size)) {
    for (int64_t i = 0; i < shape.num_streams * shape.size; ++i)
      streams[static_cast<size_t>(i)] *= 1e-4f;  // of the first token: below the floor
  }
  std::vector<float> streams, made, coefs, scale;
};

using Op = void (*)(Stream*, const Case&, Rows&);  // without a stream: the reference

void predict(Stream* stream, const Case& shape, Rows& rows) {
  const PredictStreamsParams params{.streams = rows.streams.data(),
                                    .coefs = rows.coefs.data(),
                                    .active_out = rows.made.data(),
                                    .active = shape.num_streams / 2,
                                    .num_tokens = shape.num_tokens,
                                    .num_streams = shape.num_streams,
                                    .hidden_size = shape.size};
  stream == nullptr ? ref::predict_streams(params) : predict_streams(*stream, params);
}

void correct(Stream* stream, const Case& shape, Rows& rows) {
  const bool scales = shape.size % 2 == 1;
  const CorrectStreamsParams params{.streams = rows.streams.data(),
                                    .made = rows.made.data(),
                                    .coefs = rows.coefs.data(),
                                    .active = shape.num_streams - 1,
                                    .active_out = rows.made.data(),
                                    .scale = scales ? rows.scale.data() : nullptr,
                                    .num_tokens = shape.num_tokens,
                                    .num_streams = shape.num_streams,
                                    .hidden_size = shape.size};
  stream == nullptr ? ref::correct_streams(params) : correct_streams(*stream, params);
}

// Gives the last stream the magnitude of the rows in `made`.
void match(Stream* stream, const Case& shape, Rows& rows) {
  const int64_t stride = shape.num_streams * shape.size;
  const MatchMagnitudeParams params{.x = rows.streams.data() + stride - shape.size,
                                    .x_stride = stride,
                                    .like = rows.made.data(),
                                    .like_stride = shape.size,
                                    .num_tokens = shape.num_tokens,
                                    .hidden_size = shape.size};
  stream == nullptr ? ref::match_magnitude(params) : match_magnitude(*stream, params);
}

void add(Stream* stream, const Case& shape, Rows& rows) {
  const AddScaledParams params{.x = rows.streams.data(),
                               .x_stride = shape.num_streams * shape.size,
                               .y = rows.made.data(),
                               .y_stride = shape.size,
                               .scale = 0.7f,
                               .num_tokens = shape.num_tokens,
                               .hidden_size = shape.size};
  stream == nullptr ? ref::add_scaled(params) : add_scaled(*stream, params);
}

void cut(Stream* stream, const Case& shape, Rows& rows) {
  const CutBelowParams params{.x = rows.streams.data(),
                              .x_stride = shape.num_streams * shape.size,
                              .deviations = shape.size % 2 == 1 ? 0.5f : -0.25f,
                              .num_tokens = shape.num_tokens,
                              .size = shape.size};
  stream == nullptr ? ref::cut_below(params) : cut_below(*stream, params);
}

constexpr Op kOps[] = {predict, correct, match, add, cut};

TEST(Streams, MatchReference) {
  for (const Isa isa : isas()) {
    Host host(isa);
    for (const Case& shape : kCases) {
      for (size_t op = 0; op < std::size(kOps); ++op) {
        SCOPED_TRACE(testing::Message()
                     << to_string(isa) << " op " << op << " size " << shape.size);
        Rows got(shape), want(shape);
        kOps[op](&host.stream, shape, got);
        kOps[op](nullptr, shape, want);
        ASSERT_TRUE(
            close(got.streams.data(), want.streams.data(), std::ssize(want.streams), kTolerance));
        ASSERT_TRUE(close(got.made.data(), want.made.data(), std::ssize(want.made), kTolerance));
      }
    }
  }
}

// Law L4: bits do not depend on the team or on other rows.
TEST(Streams, RowBitsDoNotDependOnTheBatch) {
  constexpr Case kAll{37, 4, 1031}, kOne{1, 4, 1031};
  Host one(Isa::kPortable, 1), three(Isa::kPortable, 3);
  for (const Op op : kOps) {
    Rows together(kAll);
    const Rows before = together;
    op(&three.stream, kAll, together);
    for (const int64_t t : {int64_t{1}, int64_t{20}, kAll.num_tokens - 1}) {
      Rows alone(kOne);
      const auto take = [t](const std::vector<float>& from, std::vector<float>& to) {
        std::copy_n(from.begin() + t * std::ssize(to), to.size(), to.begin());
      };
      take(before.streams, alone.streams);
      take(before.made, alone.made);
      alone.coefs.resize(before.coefs.size() / static_cast<size_t>(kAll.num_tokens));
      // A token has S coefficients in correct() and S * S in predict().
      const int64_t width = op == correct ? 4 : 16;
      std::copy_n(before.coefs.begin() + t * width, width, alone.coefs.begin());
      op(&one.stream, kOne, alone);
      ASSERT_TRUE(same_bits(alone.streams.data(),
                            together.streams.data() + t * std::ssize(alone.streams),
                            std::ssize(alone.streams)));
    }
  }
}

}  // namespace
}  // namespace quire
