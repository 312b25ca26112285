#include "kernels/cpu/dispatch.h"

#include "device/isa.h"

namespace quire::cpu {

Storage storage_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return kStoreF32;
    case DType::kBF16:
      return kStoreBf16;
    case DType::kF16:
      return kStoreF16;
    default:
      break;
  }
  QUIRE_CHECK(false, "expected f32, bf16 or f16, got {}", to_string(dtype));
  return kStoreF32;
}

ActivationKind activation_kind(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return kActSilu;
    case Activation::kGeluTanh:
      return kActGeluTanh;
    case Activation::kGeluErf:
      return kActGeluErf;
    case Activation::kRelu:
      return kActRelu;
    case Activation::kRelu2:
      return kActRelu2;
    case Activation::kQuickGelu:
      return kActQuickGelu;
    case Activation::kTanh:
      return kActTanh;
    case Activation::kXielu:
      break;
  }
  QUIRE_CHECK(false, "xIELU is no function of one argument");
  return kActSilu;
}

int64_t padded_k(const WeightSpec& spec) {
  if (spec.dtype == DType::kBF16) return round_up(spec.k, kKMultipleBf16);
  if (spec.dtype == DType::kI8) return round_up(spec.k, kKMultipleInt8);
  return round_up(spec.k, kKMultipleFloat);
}

CacheKind cache_kind(const KvCacheView& kv) {
  switch (kv.dtype) {
    case DType::kF32:
      return kCacheF32;
    case DType::kBF16:
      return kCacheBf16;
    case DType::kF16:
      return kCacheF16;
    case DType::kF8E4M3:
      return kCacheE4M3;
    case DType::kF8E5M2:
      return kCacheE5M2;
    case DType::kI8:
      return kCacheInt8;
    default:
      break;
  }
  QUIRE_CHECK(false, "expected a cache of f32, bf16, f16, fp8 or int8, got {}",
              to_string(kv.dtype));
  return kCacheF32;
}

Isa vector_isa(Isa isa) {
  if (isa == Isa::kAmx) return Isa::kAvx512;
  return isa == Isa::kAmxEmulated ? Isa::kPortable : isa;
}

namespace {
bool is_bf16_by_bf16(const WeightSpec& spec) {
  return spec.compute == ComputeType::kBF16 && spec.dtype == DType::kBF16;
}
}  // namespace

#ifdef QUIRE_X86_KERNELS

const ElementKernels& element_kernels(Isa isa) {
  return by_width(isa, kElementPortable, kElementAvx2, kElementAvx512);
}

namespace {
// Chooses between float kernels and those of bf16 dot products or tiles, which caches of codes take
// only if the CPU can permute bytes (VBMI: one generation of CPUs with AVX512_BF16 lacks it, and no
// CPU with AMX).
const AttentionKernels& avx512_attention(Isa isa, DType cache) {
  const bool permutes = __builtin_cpu_supports("avx512vbmi");
  if (isa == Isa::kAmx && is_in_pairs(cache) && permutes) return kAttentionAmx;
  if (!uses_avx512_bf16(isa)) return kAttentionAvx512;
  if (cache == DType::kBF16) return kAttentionAvx512Bf16;
  return is_in_pairs(cache) && permutes ? kAttentionAvx512Codes : kAttentionAvx512;
}
}  // namespace

const AttentionKernels& attention_kernels(Isa isa, DType cache) {
  if (isa == Isa::kAmxEmulated && is_in_pairs(cache)) return kAttentionAmxEmulated;
  switch (vector_isa(isa)) {
    case Isa::kAvx512Core:
    case Isa::kAvx512Vnni:
    case Isa::kAvx512:
      return avx512_attention(isa, cache);
    case Isa::kAvx2Core:
    case Isa::kAvx2:
      return kAttentionAvx2;
    default:
      break;
  }
  return kAttentionPortable;
}

namespace {
const LinearKernels& int8_kernels(Isa isa) {
  switch (isa) {
    case Isa::kAmx:
      return kLinearInt8Amx;
    case Isa::kAmxEmulated:
      return kLinearInt8AmxEmulated;
    case Isa::kAvx512Core:
    case Isa::kAvx512Vnni:
    case Isa::kAvx512:
      return uses_avx512_vnni(isa) ? kLinearInt8Avx512Vnni : kLinearInt8Avx512;
    case Isa::kAvx2Core:
    case Isa::kAvx2:
      return uses_avx_vnni(isa) ? kLinearInt8Avx2Vnni : kLinearInt8Avx2;
    case Isa::kPortable:
      break;
  }
  return kLinearInt8Portable;
}

bool uses_bf16_dot(Isa isa, const WeightSpec& spec) {
  return is_bf16_by_bf16(spec) && uses_avx512_bf16(isa);
}
}  // namespace

const LinearKernels& linear_kernels(Isa isa, const WeightSpec& spec) {
  if (spec.dtype == DType::kI8) return int8_kernels(isa);
  if (isa == Isa::kAmx && is_bf16_by_bf16(spec)) return kLinearAmx;
  if (isa == Isa::kAmxEmulated && is_bf16_by_bf16(spec)) return kLinearAmxEmulated;
  switch (vector_isa(isa)) {
    case Isa::kAvx512Core:
    case Isa::kAvx512Vnni:
    case Isa::kAvx512:
      return uses_bf16_dot(isa, spec) ? kLinearAvx512Bf16 : kLinearAvx512;
    case Isa::kAvx2Core:
    case Isa::kAvx2:
      return kLinearAvx2;
    default:
      break;
  }
  return kLinearPortable;
}

const ProbeKernels& probe_kernels(Isa isa, const WeightSpec& spec) {
  const bool int8 = spec.dtype == DType::kI8;
  if (isa == Isa::kAmx && (int8 || is_bf16_by_bf16(spec))) return kProbeAmx;
  switch (vector_isa(isa)) {
    case Isa::kAvx512Core:
    case Isa::kAvx512Vnni:
    case Isa::kAvx512:
      if (int8 && uses_avx512_vnni(isa)) return kProbeAvx512Vnni;
      return uses_bf16_dot(isa, spec) ? kProbeAvx512Bf16 : kProbeAvx512;
    case Isa::kAvx2Core:
    case Isa::kAvx2:
      return int8 && uses_avx_vnni(isa) ? kProbeAvx2Vnni : kProbeAvx2;
    default:
      break;
  }
  return kProbePortable;
}

#else

const ElementKernels& element_kernels(Isa) { return kElementPortable; }
const AttentionKernels& attention_kernels(Isa isa, DType cache) {
  return isa == Isa::kAmxEmulated && is_in_pairs(cache) ? kAttentionAmxEmulated
                                                        : kAttentionPortable;
}
const LinearKernels& linear_kernels(Isa isa, const WeightSpec& spec) {
  if (spec.dtype == DType::kI8) {
    return isa == Isa::kAmxEmulated ? kLinearInt8AmxEmulated : kLinearInt8Portable;
  }
  return isa == Isa::kAmxEmulated && is_bf16_by_bf16(spec) ? kLinearAmxEmulated : kLinearPortable;
}
const ProbeKernels& probe_kernels(Isa, const WeightSpec&) { return kProbePortable; }

#endif

}  // namespace quire::cpu
