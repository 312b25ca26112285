// Kernels of activations, soft cap, embedding and rotary tables. Each thread computes a few
// neighbouring elements.
#include <cmath>
#include <cstdint>

#include "kernels/cuda/activate.h"
#include "kernels/cuda/element_loop.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/types.h"

namespace quire::cuda {
namespace {

template <typename T, int N>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kElementThreads, 1)
    activation_kernel(const T* x, T* out, Activation kind, const float* xielu, bool gated,
                      int64_t num_tokens, int64_t ffn_size) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  const XieluFactors factors = kind == Activation::kXielu ? xielu_factors(xielu) : XieluFactors{};
  const int64_t per_row = ffn_size / N;
  for (int64_t i = global_thread(); i < num_tokens * per_row; i += num_global_threads()) {
    const int64_t token = i / per_row;
    const int64_t column = i % per_row * N;
    const T* row = x + token * (gated ? 2 * ffn_size : ffn_size);
    float value[N];
    load<N>(row + column, value);
#pragma unroll
    for (float& v : value)
      v = kind == Activation::kXielu ? apply_xielu(factors, v) : activate(kind, v);
    if (gated) {
      float up[N];
      load<N>(row + ffn_size + column, up);
#pragma unroll
      for (int j = 0; j < N; ++j) value[j] = ptx::multiply(value[j], up[j]);
    }
    store<N>(out + token * ffn_size + column, value);
  }
}

template <typename T>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kElementThreads, 1)
    sigmoid_scale_kernel(const T* x, T* out, const float* logits, int64_t num_rows,
                         int64_t row_size) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  for (int64_t i = global_thread(); i < num_rows * row_size; i += num_global_threads()) {
    const float share = 1.0f / (1.0f + expf(-logits[i / row_size]));
    out[i] = narrow<T>(widen(x[i]) * share);
  }
}

QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kElementThreads, 1)
    soft_cap_kernel(float* x, float cap, int64_t count) {
  ptx::wait_for_previous_kernel();
  for (int64_t i = global_thread(); i < count; i += num_global_threads())
    x[i] = cap * tanhf(x[i] / cap);
}

template <typename Table, typename Out, int N>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kElementThreads, 1)
    embedding_kernel(const int32_t* token_ids, const Table* table, int64_t num_rows,
                     const int32_t* positions, const Table* position_table, float scale, Out* out,
                     int64_t num_tokens, int64_t hidden_size) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  const int64_t per_row = hidden_size / N;
  for (int64_t i = global_thread(); i < num_tokens * per_row; i += num_global_threads()) {
    const int64_t token = i / per_row;
    const int64_t column = i % per_row * N;
    float value[N];
    const int64_t id = token_ids[token];
    load<N>(table + (num_rows > 0 && id >= num_rows ? 0 : id) * hidden_size + column, value);
#pragma unroll
    for (float& v : value) v *= scale;
    if (position_table != nullptr) {
      float position[N];
      load<N>(position_table + positions[token] * hidden_size + column, position);
#pragma unroll
      for (int j = 0; j < N; ++j) value[j] += position[j];
    }
    store<N>(out + token * hidden_size + column, value);
  }
}

constexpr int kMaxRopePairs = kMaxHeadDim / 2;
struct RopeArgs {
  double inv_freq[kMaxRopePairs];
  double scale;
  double dynamic_theta;
  double dynamic_factor;
  int64_t dynamic_max_position;
  const int32_t* positions;
  float* cos;
  float* sin;
  int64_t num_tokens;
  int32_t pairs;
};

// Returns the frequency of a pair at a position. Beyond the original length dynamic NTK scaling
// stretches the base (nn/spec/rope.h).
QUIRE_DEVICE double frequency(const RopeArgs& args, int64_t position, int32_t pair) {
  if (args.dynamic_max_position == 0 || position < args.dynamic_max_position)
    return args.inv_freq[pair];
  const double dim = 2.0 * args.pairs;
  const double ratio =
      static_cast<double>(position + 1) / static_cast<double>(args.dynamic_max_position);
  const double stretch = args.dynamic_factor * ratio - (args.dynamic_factor - 1.0);
  const double theta = args.dynamic_theta * pow(stretch, dim / (dim - 2.0));
  return 1.0 / pow(theta, 2.0 * pair / dim);
}

QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kElementThreads, 1) rope_table_kernel(const RopeArgs args) {
  ptx::wait_for_previous_kernel();
  for (int64_t i = global_thread(); i < args.num_tokens * args.pairs; i += num_global_threads()) {
    const int64_t position = args.positions[i / args.pairs];
    const auto pair = static_cast<int32_t>(i % args.pairs);
    const double angle = static_cast<double>(position) * frequency(args, position, pair);
    args.cos[i] = static_cast<float>(cos(angle) * args.scale);
    args.sin[i] = static_cast<float>(sin(angle) * args.scale);
  }
}

}  // namespace

void activation(Stream& stream, const ActivationParams& p) {
  if (p.num_tokens == 0) return;
  QUIRE_CHECK(p.x.dtype() == p.out.dtype(), "[activation] {} to {}", to_string(p.x.dtype()),
              to_string(p.out.dtype()));
  QUIRE_CHECK(p.activation != Activation::kXielu || (!p.gated && p.xielu != nullptr),
              "[activation] xIELU is expected with its numbers and without a gate");
  with_float_type(p.x.dtype(), [&](auto type) {
    using T = decltype(type);
    const auto* x = static_cast<const T*>(p.x.data());
    auto* out = static_cast<T*>(p.out.data());
    if (p.ffn_size % 8 == 0) {
      launch<activation_kernel<T, 8>>(stream, element_shape(stream, p.num_tokens * p.ffn_size / 8),
                                      x, out, p.activation, p.xielu, p.gated, p.num_tokens,
                                      p.ffn_size);
    } else {
      launch<activation_kernel<T, 1>>(stream, element_shape(stream, p.num_tokens * p.ffn_size), x,
                                      out, p.activation, p.xielu, p.gated, p.num_tokens,
                                      p.ffn_size);
    }
  });
}

void sigmoid_scale(Stream& stream, const SigmoidScaleParams& p) {
  if (p.num_rows == 0) return;
  QUIRE_CHECK(p.x.dtype() == p.out.dtype(), "[sigmoid_scale] {} to {}", to_string(p.x.dtype()),
              to_string(p.out.dtype()));
  with_float_type(p.x.dtype(), [&](auto type) {
    using T = decltype(type);
    launch<sigmoid_scale_kernel<T>>(
        stream, element_shape(stream, p.num_rows * p.row_size), static_cast<const T*>(p.x.data()),
        static_cast<T*>(p.out.data()), p.logits, p.num_rows, p.row_size);
  });
}

void soft_cap(Stream& stream, const SoftCapParams& p) {
  if (p.count == 0) return;
  launch<soft_cap_kernel>(stream, element_shape(stream, p.count), p.x, p.cap, p.count);
}

void embedding(Stream& stream, const EmbeddingParams& p) {
  if (p.num_tokens == 0) return;
  QUIRE_CHECK(p.packed_table == nullptr,
              "[embedding] a GPU wants tables of float types, which its weights' check ensures");
  with_table_type(p.table_dtype, [&](auto table_type) {
    with_float_type(p.out.dtype(), [&](auto out_type) {
      using Table = decltype(table_type);
      using Out = decltype(out_type);
      const auto* table = static_cast<const Table*>(p.table);
      const auto* position_table = static_cast<const Table*>(p.position_table);
      auto* out = static_cast<Out*>(p.out.data());
      if (p.hidden_size % 8 == 0) {
        launch<embedding_kernel<Table, Out, 8>>(
            stream, element_shape(stream, p.num_tokens * p.hidden_size / 8), p.token_ids, table,
            p.num_rows, p.positions, position_table, p.scale, out, p.num_tokens, p.hidden_size);
      } else {
        launch<embedding_kernel<Table, Out, 1>>(
            stream, element_shape(stream, p.num_tokens * p.hidden_size), p.token_ids, table,
            p.num_rows, p.positions, position_table, p.scale, out, p.num_tokens, p.hidden_size);
      }
    });
  });
}

void rope_table(Stream& stream, const RopeTableParams& p) {
  if (p.num_tokens == 0) return;
  RopeArgs args{};
  args.pairs = p.rotary_dim / 2;
  QUIRE_CHECK(args.pairs <= kMaxRopePairs, "[rope] rotary_dim {}: expected at most {}",
              p.rotary_dim, 2 * kMaxRopePairs);
  for (int32_t i = 0; i < args.pairs; ++i) args.inv_freq[i] = p.inv_freq[i];
  args.scale = p.scale;
  args.dynamic_theta = p.dynamic_theta;
  args.dynamic_factor = p.dynamic_factor;
  args.dynamic_max_position = p.dynamic_max_position;
  args.positions = p.positions;
  args.cos = p.cos;
  args.sin = p.sin;
  args.num_tokens = p.num_tokens;
  launch<rope_table_kernel>(stream, element_shape(stream, p.num_tokens * args.pairs), args);
}

}  // namespace quire::cuda
