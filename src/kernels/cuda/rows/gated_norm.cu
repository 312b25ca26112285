// gated_norm(): one block per group of a row. The order of a group's sum depends on its length
// alone (L4).
#include <cmath>
#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/types.h"

namespace quire::cuda {
namespace {

constexpr int kMaxThreads = 256;
constexpr int64_t kElementsOfAThread = 4;

template <typename T>
struct GatedArgs {
  T* x;
  int64_t x_stride;
  Gate act;
  const T* gate;
  int64_t gate_stride;
  bool gate_first;
  bool normalizes;
  const float* weight;
  bool shared_weight;
  float scale;
  const float* scale_factor;
  float eps;
  int64_t num_groups;
  int64_t group_size;
};

QUIRE_DEVICE float gate_of(Gate act, float x) {
  if (act == Gate::kNone) return 1.0f;
  const float sigmoid = ptx::divide(1.0f, ptx::add(1.0f, expf(-x)));
  return act == Gate::kSilu ? ptx::multiply(x, sigmoid) : sigmoid;
}

template <typename T>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kMaxThreads, 1) gated_norm_kernel(const GatedArgs<T> args) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  auto* scratch = reinterpret_cast<float*>(ptx::shared_memory());
  const int64_t token = ptx::block_index() / args.num_groups;
  const int64_t first = ptx::block_index() % args.num_groups * args.group_size;
  T* x = args.x + token * args.x_stride + first;
  const T* gate = args.act == Gate::kNone ? nullptr : args.gate + token * args.gate_stride + first;
  const float* weight = args.weight;
  if (weight != nullptr && !args.shared_weight) weight += first;
  const auto act = [&](int64_t i) {
    return gate == nullptr ? 1.0f : gate_of(args.act, widen(gate[i]));
  };
  float factor = args.scale_factor == nullptr ? args.scale : args.scale * *args.scale_factor;
  if (args.normalizes) {
    float squares = 0.0f;
    for (int64_t i = ptx::thread_index(); i < args.group_size; i += ptx::block_threads()) {
      float value = widen(x[i]);
      if (args.gate_first) value = ptx::multiply(value, act(i));
      squares = ptx::multiply_add(value, value, squares);
    }
    const float sum = block_sum(squares, scratch);
    factor /= sqrtf(sum / static_cast<float>(args.group_size) + args.eps);
  }
  for (int64_t i = ptx::thread_index(); i < args.group_size; i += ptx::block_threads()) {
    float value = widen(x[i]) * act(i) * factor;
    if (weight != nullptr) value *= weight[i];
    x[i] = narrow<T>(value);
  }
}

}  // namespace

void gated_norm(Stream& stream, const GatedNormParams& p) {
  if (p.num_tokens == 0 || p.size == 0) return;
  QUIRE_CHECK(p.group_size > 0 && p.size % p.group_size == 0 &&
                  (p.act == Gate::kNone || p.gate.dtype() == p.x.dtype()),
              "[gated_norm] groups of {} in rows of {}", p.group_size, p.size);
  const int64_t wanted = (p.group_size + kElementsOfAThread - 1) / kElementsOfAThread;
  const auto threads = static_cast<int>(std::min<int64_t>(kMaxThreads, (wanted + 31) / 32 * 32));
  const int64_t num_groups = p.size / p.group_size;
  with_float_type(p.x.dtype(), [&](auto type) {
    using T = decltype(type);
    launch<gated_norm_kernel<T>>(stream,
                                 {.num_blocks = p.num_tokens * num_groups,
                                  .num_threads = threads,
                                  .shared_bytes = 32 * sizeof(float)},
                                 GatedArgs<T>{.x = static_cast<T*>(p.x.data()),
                                              .x_stride = p.x_stride,
                                              .act = p.act,
                                              .gate = static_cast<const T*>(p.gate.data()),
                                              .gate_stride = p.gate_stride,
                                              .gate_first = p.gate_first,
                                              .normalizes = p.normalizes,
                                              .weight = p.weight,
                                              .shared_weight = p.shared_weight,
                                              .scale = p.scale,
                                              .scale_factor = p.scale_factor,
                                              .eps = p.eps,
                                              .num_groups = num_groups,
                                              .group_size = p.group_size});
  });
}

}  // namespace quire::cuda
