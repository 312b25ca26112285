// Chooses the kernels of a stream's instruction set, and has the checks that all ops share.
#pragma once

#include "base/check.h"
#include "base/dtype.h"
#include "device/stream.h"
#include "kernels/api/activation.h"
#include "kernels/api/kv_cache.h"
#include "kernels/api/linear.h"
#include "kernels/cpu/kernel_tables.h"

namespace quire::cpu {

// Returns the stream as a host stream. A stream of another device is a bug of the caller.
inline const HostStream& host(const Stream& stream) {
  QUIRE_CHECK(stream.device() == DeviceKind::kCpu,
              "expected the stream of a CPU, got that of a GPU");
  return static_cast<const HostStream&>(stream);
}

// Returns f32, bf16 or f16 as an index of the kernel tables. Other types are a bug of the caller.
Storage storage_of(DType dtype);

ActivationKind activation_kind(Activation activation);

// Returns the padded K of a weight that is not quantized.
int64_t padded_k(const WeightSpec& spec);

// The arrays after the panels of an int8 weight, with these bytes per output (padded to whole
// panels).
inline constexpr int64_t kInt8TailBytes = sizeof(float) + sizeof(int32_t);
struct Int8Tail {
  float* scales;
  int32_t* sums;  // of the codes over k
};
inline Int8Tail int8_tail(const PackedWeight& weight) {
  const int64_t n = round_up(weight.spec.n, kPanelWidth);
  auto* scales =
      reinterpret_cast<float*>(static_cast<uint8_t*>(weight.data) + n * padded_k(weight.spec));
  return {scales, reinterpret_cast<int32_t*>(scales + n)};
}
// Packs rows of an int8 weight for pack_weight_rows().
void pack_int8_rows(Stream& stream, const PackedWeight& weight, const WeightRows& rows);

// Returns the set of the vectors that go with the tiles of kAmx and kAmxEmulated; other sets
// unchanged.
Isa vector_isa(Isa isa);

// Chooses for ops that have one kernel per width of vectors.
template <class Kernels>
const Kernels& by_width(Isa isa, const Kernels& portable, const Kernels& avx2,
                        const Kernels& avx512) {
  switch (vector_isa(isa)) {
    case Isa::kAvx512Core:
    case Isa::kAvx512Vnni:
    case Isa::kAvx512:
      return avx512;
    case Isa::kAvx2Core:
    case Isa::kAvx2:
      return avx2;
    default:
      return portable;
  }
}

// Returns the type of a cache's elements as an index of the attention tables.
CacheKind cache_kind(const KvCacheView& kv);

const ElementKernels& element_kernels(Isa isa);
// Returns the kernels for a cache of this type.
const AttentionKernels& attention_kernels(Isa isa, DType cache);
// Returns the kernels that multiply weights of this kind on this instruction set.
const LinearKernels& linear_kernels(Isa isa, const WeightSpec& spec);

// Returns the probe that measures the hardware's limits for linear() with weights of this kind.
const ProbeKernels& probe_kernels(Isa isa, const WeightSpec& spec);

// Products of weights with at least this many elements are split over the team.
inline constexpr int64_t kLinearWorthWaking = 1 << 15;

// Returns how many threads should share `work` (in elements touched): one if it is less than
// `worth_waking`, because waking the others would then cost more than it saves.
inline int threads_for(const HostStream& stream, int64_t work, int64_t worth_waking) {
  return work < worth_waking ? 1 : stream.team().size();
}

// Runs body(thread, num_threads) on threads_for() threads; one thread is the caller.
template <typename Body>
void run_parallel(const HostStream& stream, int64_t work, int64_t worth_waking, Body&& body) {
  const int num_threads = threads_for(stream, work, worth_waking);
  if (num_threads == 1) {
    body(0, 1);
  } else {
    stream.team().run([&](int thread) { body(thread, num_threads); });
  }
}

}  // namespace quire::cpu
