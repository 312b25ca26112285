// head_linear() on CPUs. The product of a head is small, so threads take whole heads.
#include <algorithm>

#include "kernels/api/latent.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/linear/product.h"
#include "kernels/cpu/ops.h"

namespace quire {
namespace {

// Returns the bytes of one thread's workspace.
int64_t workspace_bytes(Isa isa, const WeightSpec& spec, int64_t num_tokens) {
  return cpu::with_product(isa, PackedWeight{spec, nullptr}, num_tokens, [](const auto& product) {
    return cpu::round_up(product.packed_bytes(), 64) + cpu::round_up(product.scratch_bytes(), 64);
  });
}

void multiply_head(Isa isa, const HeadLinearParams& params, int64_t head, uint8_t* workspace) {
  const PackedWeight& weight = *params.weights[static_cast<size_t>(head)];
  const float* x = params.x;
  float* y = params.y;
  cpu::with_product(isa, weight, params.num_tokens, [&](const auto& product) {
    product.pack_share(0, 1, x + head * params.x_head_stride, params.x_stride, workspace);
    product.multiply({0, weight.spec.n}, workspace,
                     workspace + cpu::round_up(product.packed_bytes(), 64),
                     {.y = y + head * params.y_head_stride, .y_stride = params.y_stride});
  });
}

}  // namespace

void cpu::head_linear(Stream& stream, const HeadLinearParams& params) {
  const HostStream& cpu_stream = cpu::host(stream);
  if (params.num_tokens == 0) return;
  const WeightSpec& spec = params.weights.front()->spec;
  const auto heads = static_cast<int64_t>(params.weights.size());
  QUIRE_DCHECK(params.workspace != nullptr && params.x_head_stride >= spec.k &&
                   params.y_head_stride >= spec.n,
               "[head_linear] strides {} and {} of heads, n {}, k {}", params.x_head_stride,
               params.y_head_stride, spec.n, spec.k);
  int64_t each = 0;
  for (const PackedWeight* weight : params.weights) {
    each = std::max(each, workspace_bytes(cpu_stream.isa(), weight->spec, params.num_tokens));
  }
  auto* workspace = reinterpret_cast<uint8_t*>(
      cpu::round_up(static_cast<int64_t>(reinterpret_cast<uintptr_t>(params.workspace)), 64));
  cpu::run_parallel(cpu_stream, heads * spec.n * spec.k, kLinearWorthWaking,
                    [&](int thread, int num_threads) {
                      const WorkRange mine = split_work(heads, 1, thread, num_threads);
                      for (int64_t head = mine.begin; head < mine.end; ++head) {
                        multiply_head(cpu_stream.isa(), params, head, workspace + thread * each);
                      }
                    });
}

int64_t cpu::head_linear_workspace_bytes(const Stream& stream, int64_t max_tokens,
                                         const WeightSpec& spec) {
  const HostStream& cpu_stream = cpu::host(stream);
  int64_t most = 0;  // fewer tokens can have wider blocks, and so more bytes
  for (const int64_t tokens : {max_tokens, std::min<int64_t>(max_tokens, kFewBlockRows)}) {
    most = std::max(most, workspace_bytes(cpu_stream.isa(), spec, std::max<int64_t>(tokens, 1)));
  }
  return cpu_stream.team().size() * most + 64;
}

}  // namespace quire
