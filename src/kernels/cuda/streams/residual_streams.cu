// The ops of several residual streams (AltUp) and of sparse MLPs, one block per token. The order of
// its sums depends on the length of a row alone (L4).
#include <cmath>
#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/types.h"

namespace quire::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kMost = static_cast<int>(kMaxStreams);

QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, 1) predict_kernel(const PredictStreamsParams p) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  const int64_t token = ptx::block_index();
  const auto count = static_cast<int>(p.num_streams);
  float* rows = p.streams + token * count * p.hidden_size;
  const float* coefs = p.coefs + token * count * count;
  for (int64_t i = ptx::thread_index(); i < p.hidden_size; i += kThreads) {
    float x[kMost];
#pragma unroll
    for (int s = 0; s < kMost; ++s) x[s] = s < count ? rows[s * p.hidden_size + i] : 0.0f;
    for (int s = 0; s < count; ++s) {
      float sum = rows[s * p.hidden_size + i];
#pragma unroll
      for (int j = 0; j < kMost; ++j) {
        if (j < count) sum = ptx::multiply_add(coefs[s * count + j], x[j], sum);
      }
      rows[s * p.hidden_size + i] = sum;
      if (s == p.active) p.active_out[token * p.hidden_size + i] = sum;
    }
  }
}

QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, 1) correct_kernel(const CorrectStreamsParams p) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  const int64_t token = ptx::block_index();
  float* rows = p.streams + token * p.num_streams * p.hidden_size;
  const float* coefs = p.coefs + token * p.num_streams;
  for (int64_t i = ptx::thread_index(); i < p.hidden_size; i += kThreads) {
    const int64_t at = token * p.hidden_size + i;
    const float news = ptx::add(p.made[at], -rows[p.active * p.hidden_size + i]);
    for (int64_t s = 0; s < p.num_streams; ++s) {
      float& x = rows[s * p.hidden_size + i];
      x = ptx::multiply_add(ptx::add(1.0f, coefs[s]), news, x);
      if (s == p.active) p.active_out[at] = p.scale == nullptr ? x : ptx::multiply(x, p.scale[i]);
    }
  }
}

// Returns the sum of a row's values, or of their squares, after subtracting `center`. `scratch` is
// as in block_sum().
template <typename T>
QUIRE_DEVICE float row_sum(const T* row, int64_t size, float center, bool squares, float* scratch) {
  float sum = 0.0f;
  for (int64_t i = ptx::thread_index(); i < size; i += kThreads) {
    const float x = ptx::add(widen(row[i]), -center);
    sum = squares ? ptx::multiply_add(x, x, sum) : ptx::add(sum, x);
  }
  return block_sum(sum, scratch);
}

QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, 1) match_kernel(const MatchMagnitudeParams p) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  auto* scratch = reinterpret_cast<float*>(ptx::shared_memory());
  float* x = p.x + ptx::block_index() * p.x_stride;
  const float* like = p.like + ptx::block_index() * p.like_stride;
  const auto size = static_cast<float>(p.hidden_size);
  const float wanted = row_sum(like, p.hidden_size, 0.0f, true, scratch) / size;
  const float is = row_sum(x, p.hidden_size, 0.0f, true, scratch + 32) / size;
  const float factor = sqrtf(ptx::divide(wanted, ptx::max(is, p.floor)));
  for (int64_t i = ptx::thread_index(); i < p.hidden_size; i += kThreads)
    x[i] = ptx::multiply(x[i], factor);
}

QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, 1) add_scaled_kernel(const AddScaledParams p) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  float* x = p.x + ptx::block_index() * p.x_stride;
  const float* y = p.y + ptx::block_index() * p.y_stride;
  for (int64_t i = ptx::thread_index(); i < p.hidden_size; i += kThreads)
    x[i] = ptx::multiply(ptx::add(x[i], y[i]), p.scale);
}

template <typename T>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, 1)
    cut_below_kernel(T* rows, int64_t stride, float deviations, int64_t size) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  auto* scratch = reinterpret_cast<float*>(ptx::shared_memory());
  T* x = rows + ptx::block_index() * stride;
  const auto count = static_cast<float>(size);
  const float mean = row_sum(x, size, 0.0f, false, scratch) / count;
  const float variance = row_sum(x, size, mean, true, scratch + 32) / count;
  const float least = ptx::multiply_add(sqrtf(variance), deviations, mean);
  for (int64_t i = ptx::thread_index(); i < size; i += kThreads)
    x[i] = narrow<T>(ptx::max(ptx::add(widen(x[i]), -least), 0.0f));
}

LaunchShape shape_for(int64_t num_tokens) {
  return {
      .num_blocks = num_tokens, .num_threads = kThreads, .shared_bytes = 2 * 32 * sizeof(float)};
}

}  // namespace

void predict_streams(Stream& stream, const PredictStreamsParams& p) {
  QUIRE_CHECK(p.num_streams <= kMaxStreams, "[predict_streams] {} streams", p.num_streams);
  launch<predict_kernel>(stream, shape_for(p.num_tokens), p);
}

void correct_streams(Stream& stream, const CorrectStreamsParams& p) {
  launch<correct_kernel>(stream, shape_for(p.num_tokens), p);
}

void match_magnitude(Stream& stream, const MatchMagnitudeParams& p) {
  launch<match_kernel>(stream, shape_for(p.num_tokens), p);
}

void add_scaled(Stream& stream, const AddScaledParams& p) {
  launch<add_scaled_kernel>(stream, shape_for(p.num_tokens), p);
}

void cut_below(Stream& stream, const CutBelowParams& p) {
  with_float_type(p.x.dtype(), [&](auto type) {
    using T = decltype(type);
    launch<cut_below_kernel<T>>(stream, shape_for(p.num_tokens), static_cast<T*>(p.x.data()),
                                p.x_stride, p.deviations, p.size);
  });
}

}  // namespace quire::cuda
