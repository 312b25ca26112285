// RMSNorm and LayerNorm, one block per row. The order of a row's sum depends on its length alone
// (L4).
#include <cmath>
#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/types.h"

namespace quire::cuda {
namespace {

constexpr int kMaxThreads = 512;

struct NormArgs {
  const void* x = nullptr;
  const float* weight = nullptr;
  const float* bias = nullptr;  // layer norm; may be null
  void* out = nullptr;
  const int32_t* rows = nullptr;
  bool adds = false;     // adds to out, instead of overwriting it
  bool centers = false;  // layer norm: subtracts the mean
  float eps = 0.0f;
  int64_t hidden_size = 0;
};

// A thread's pieces of a row, N elements each. The first piece stays in registers.
template <typename X, int N>
struct RowPieces {
  const X* row = nullptr;
  int64_t size = 0;
  float first[N] = {};

  QUIRE_DEVICE RowPieces(const X* row_of, int64_t size_of) : row(row_of), size(size_of) {
    const int64_t begin = int64_t{ptx::thread_index()} * N;
    if (begin < size) load<N>(row + begin, first);
  }
  QUIRE_DEVICE void load_piece(int64_t begin, float (&piece)[N]) const {
    if (begin >= int64_t{ptx::block_threads()} * N) return load<N>(row + begin, piece);
#pragma unroll
    for (int j = 0; j < N; ++j) piece[j] = first[j];
  }
  // Calls f with the offset and the elements of each piece.
  template <typename F>
  QUIRE_DEVICE void for_each(F&& f) const {
    for (int64_t i = int64_t{ptx::thread_index()} * N; i < size;
         i += int64_t{ptx::block_threads()} * N) {
      float piece[N];
      load_piece(i, piece);
      f(i, piece);
    }
  }
};

// Returns the sum of a row's values, or of their squares, after subtracting `center`. Here the
// compiler decides what it contracts, so the last bits may differ from those of row_sum() in
// streams/residual_streams.cu.
template <typename X, int N>
QUIRE_DEVICE float sum_of_pieces(const RowPieces<X, N>& row, float center, bool squares,
                                 float* scratch) {
  float sum = 0.0f;
  row.for_each([&](int64_t /*begin*/, const float(&x)[N]) {
#pragma unroll
    for (const float value : x) {
      const float shifted = value - center;
      sum += squares ? shifted * shifted : shifted;
    }
  });
  return block_sum(sum, scratch);
}

// The weight is loaded while the previous kernel still runs, since no kernel writes it.
template <typename X, typename Out, int N>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kMaxThreads, 1) norm_kernel(const NormArgs args) {
  const int64_t size = args.hidden_size;
  const RowPieces<float, N> weights(args.weight, size);
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  auto* scratch = reinterpret_cast<float*>(ptx::shared_memory());
  const int64_t index = args.rows != nullptr ? args.rows[ptx::block_index()] : ptx::block_index();
  const RowPieces<X, N> row(static_cast<const X*>(args.x) + index * size, size);
  Out* out = static_cast<Out*>(args.out) + int64_t{ptx::block_index()} * size;
  const auto count = static_cast<float>(size);
  const float mean = args.centers ? sum_of_pieces(row, 0.0f, false, scratch) / count : 0.0f;
  const float squares = sum_of_pieces(row, mean, true, scratch + 32);
  const float scale = 1.0f / sqrtf(squares / count + args.eps);
  row.for_each([&](int64_t begin, const float(&piece)[N]) {
    float x[N];
    float weight[N];
    weights.load_piece(begin, weight);
#pragma unroll
    for (int j = 0; j < N; ++j) x[j] = (piece[j] - mean) * scale * weight[j];
    if (args.bias != nullptr) {
      float bias[N];
      load<N>(args.bias + begin, bias);
#pragma unroll
      for (int j = 0; j < N; ++j) x[j] += bias[j];
    }
    if (args.adds) {
      float before[N];
      load<N>(out + begin, before);
#pragma unroll
      for (int j = 0; j < N; ++j) x[j] += before[j];
    }
    store<N>(out + begin, x);
  });
}

void run(Stream& stream, const NormArgs& args, DType x_type, DType out_type, int64_t num_tokens) {
  if (num_tokens == 0) return;
  const bool vectors = args.hidden_size % 8 == 0;
  const int64_t pieces = vectors ? args.hidden_size / 8 : args.hidden_size;
  const auto threads = static_cast<int>(std::min<int64_t>(kMaxThreads, (pieces + 31) / 32 * 32));
  const LaunchShape shape{
      .num_blocks = num_tokens, .num_threads = threads, .shared_bytes = 2 * 32 * sizeof(float)};
  with_float_type(x_type, [&](auto x) {
    with_float_type(out_type, [&](auto out) {
      if (vectors) {
        launch<norm_kernel<decltype(x), decltype(out), 8>>(stream, shape, args);
      } else {
        launch<norm_kernel<decltype(x), decltype(out), 1>>(stream, shape, args);
      }
    });
  });
}

}  // namespace

void rms_norm(Stream& stream, const RmsNormParams& p) {
  const bool adds = p.add_to.data() != nullptr;
  const Activations out = adds ? p.add_to : p.out;
  run(stream,
      {.x = p.x.data(),
       .weight = p.weight,
       .bias = nullptr,
       .out = out.data(),
       .rows = p.rows,
       .adds = adds,
       .centers = false,
       .eps = p.eps,
       .hidden_size = p.hidden_size},
      p.x.dtype(), out.dtype(), p.num_tokens);
}

void layer_norm(Stream& stream, const LayerNormParams& p) {
  run(stream,
      {.x = p.x.data(),
       .weight = p.weight,
       .bias = p.bias,
       .out = p.out.data(),
       .rows = p.rows,
       .adds = false,
       .centers = true,
       .eps = p.eps,
       .hidden_size = p.hidden_size},
      p.x.dtype(), p.out.dtype(), p.num_tokens);
}

}  // namespace quire::cuda
