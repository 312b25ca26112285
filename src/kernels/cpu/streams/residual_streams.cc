// Rows are split over the threads. One thread computes all sums over a row, in one order.
#include "kernels/api/streams/residual_streams.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/streams/stream_ops.h"

namespace quire {
namespace {

constexpr int64_t kCheapElements = 1 << 15;  // with fewer, waking the team does not pay
constexpr int64_t kRun = 256;                // elements of a row per pass

template <typename Work>
void for_rows(Stream& stream, int64_t num_rows, int64_t row_elements, const Work& work) {
  cpu::run_parallel(cpu::host(stream), num_rows * row_elements, kCheapElements,
                    [&](int thread, int num_threads) {
                      const WorkRange mine = split_work(num_rows, 1, thread, num_threads);
                      for (int64_t t = mine.begin; t < mine.end; ++t) work(t);
                    });
}

// Returns the sum of term(x[i]), in eight interleaved sums.
template <typename Term>
float sum_of(const float* x, int64_t size, const Term& term) {
  std::array<float, 8> sums{};
  int64_t i = 0;
  for (; i + 8 <= size; i += 8) {
    for (size_t lane = 0; lane < 8; ++lane) sums[lane] += term(x[i + static_cast<int64_t>(lane)]);
  }
  for (size_t lane = 0; i < size; ++i, ++lane) sums[lane] += term(x[i]);
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

float mean_square(const float* x, int64_t size) {
  return sum_of(x, size, [](float value) { return value * value; }) / static_cast<float>(size);
}

}  // namespace

void cpu::predict_streams(Stream& stream, const PredictStreamsParams& params) {
  const int64_t size = params.hidden_size;
  const int64_t num_streams = params.num_streams;
  for_rows(stream, params.num_tokens, num_streams * size, [&](int64_t t) {
    float* const rows = params.streams + t * num_streams * size;
    const float* const coefs = params.coefs + t * num_streams * num_streams;
    std::array<std::array<float, kRun>, kMaxStreams> sums;
    for (int64_t begin = 0; begin < size; begin += kRun) {
      const int64_t count = std::min(kRun, size - begin);
      for (int64_t s = 0; s < num_streams; ++s) {
        float* const sum = sums[static_cast<size_t>(s)].data();
        std::fill_n(sum, count, 0.0f);
        for (int64_t j = 0; j < num_streams; ++j) {
          const float coef = coefs[s * num_streams + j];
          const float* const x = rows + j * size + begin;
          for (int64_t i = 0; i < count; ++i) sum[i] += coef * x[i];
        }
      }
      for (int64_t s = 0; s < num_streams; ++s) {
        const float* const sum = sums[static_cast<size_t>(s)].data();
        float* const x = rows + s * size + begin;
        for (int64_t i = 0; i < count; ++i) x[i] += sum[i];
      }
    }
    std::copy_n(rows + params.active * size, size, params.active_out + t * size);
  });
}

void cpu::correct_streams(Stream& stream, const CorrectStreamsParams& params) {
  const int64_t size = params.hidden_size;
  const int64_t num_streams = params.num_streams;
  for_rows(stream, params.num_tokens, num_streams * size, [&](int64_t t) {
    float* const rows = params.streams + t * num_streams * size;
    const float* const made = params.made + t * size;
    float* const out = params.active_out + t * size;
    const float* const active = rows + params.active * size;
    std::array<float, kRun> news;
    for (int64_t begin = 0; begin < size; begin += kRun) {
      const int64_t count = std::min(kRun, size - begin);
      for (int64_t i = 0; i < count; ++i)
        news[static_cast<size_t>(i)] = made[begin + i] - active[begin + i];
      for (int64_t s = 0; s < num_streams; ++s) {
        const float coef = params.coefs[t * num_streams + s] + 1.0f;
        float* const x = rows + s * size + begin;
        for (int64_t i = 0; i < count; ++i) x[i] += news[static_cast<size_t>(i)] * coef;
      }
      for (int64_t i = begin; i < begin + count; ++i)
        out[i] = active[i] * (params.scale == nullptr ? 1.0f : params.scale[i]);
    }
  });
}

void cpu::match_magnitude(Stream& stream, const MatchMagnitudeParams& params) {
  const int64_t size = params.hidden_size;
  for_rows(stream, params.num_tokens, size, [&](int64_t t) {
    float* const x = params.x + t * params.x_stride;
    const float wanted = std::sqrt(mean_square(params.like + t * params.like_stride, size));
    const float is = std::sqrt(std::max(mean_square(x, size), params.floor));
    for (int64_t i = 0; i < size; ++i) x[i] = x[i] * wanted / is;
  });
}

void cpu::add_scaled(Stream& stream, const AddScaledParams& params) {
  for_rows(stream, params.num_tokens, params.hidden_size, [&](int64_t t) {
    float* const x = params.x + t * params.x_stride;
    const float* const y = params.y + t * params.y_stride;
    for (int64_t i = 0; i < params.hidden_size; ++i) x[i] = (x[i] + y[i]) * params.scale;
  });
}

void cpu::cut_below(Stream& stream, const CutBelowParams& params) {
  const int64_t size = params.size;
  for_rows(stream, params.num_tokens, size, [&](int64_t t) {
    float* const x = params.x + t * params.x_stride;
    const float mean =
        sum_of(x, size, [](float value) { return value; }) / static_cast<float>(size);
    const float variance =
        sum_of(x, size, [mean](float value) { return (value - mean) * (value - mean); }) /
        static_cast<float>(size);
    const float least = mean + std::sqrt(variance) * params.deviations;
    for (int64_t i = 0; i < size; ++i) x[i] = std::max(x[i] - least, 0.0f);
  });
}

}  // namespace quire
