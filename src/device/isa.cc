#include "device/isa.h"

#include <algorithm>
#include <array>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace quire {
namespace {

#if defined(__x86_64__)
// Reads CPUID, since clang 14's __builtin_cpu_supports does not have this feature's name.
bool cpu_has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

#ifdef QUIRE_BEST_ISA_AVX2
constexpr bool kHasAvx512Kernels = false;
#else
constexpr bool kHasAvx512Kernels = true;
#endif

// The compiler's CPU model also asks the OS (XGETBV) whether it saves the wide registers. An
// instruction set that this program was built without is not returned.
Isa detect_vector_isa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && cpu_has_f16c();
  const bool avx512 = kHasAvx512Kernels && avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  if (avx512) return Isa::kAvx512;
  if (avx2) return Isa::kAvx2;
#endif
  return Isa::kPortable;
}

bool detect_avx_vnni() {
#if defined(__x86_64__)
  constexpr unsigned kAvxVnni = 1u << 4;  // compilers of 2022 have no name for it
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return detect_vector_isa() >= Isa::kAvx2 &&
         __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & kAvxVnni) != 0;
#else
  return false;
#endif
}

bool detect_avx512_bf16() {
#if defined(__x86_64__)
  return detect_vector_isa() == Isa::kAvx512 && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

bool detect_avx512_vnni() {
#if defined(__x86_64__)
  return detect_vector_isa() == Isa::kAvx512 && __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

// Returns true when the CPU has the tile unit, the OS saves its registers (XCR0 bits 17 and 18),
// and Linux grants this process their state (8 KB per thread, off until requested).
bool detect_amx() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24, kAmxInt8 = 1u << 25;
  constexpr unsigned kOsxsave = 1u << 27;
  constexpr uint64_t kTileState = (1u << 17) | (1u << 18);
  constexpr long kArchReqXcompPerm = 0x1023, kXtileData = 18;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & kOsxsave) == 0) return false;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  constexpr unsigned kNeeded = kAmxBf16 | kAmxTile | kAmxInt8;
  if ((edx & kNeeded) != kNeeded) return false;
  unsigned xcr0_low = 0, xcr0_high = 0;
  asm volatile("xgetbv" : "=a"(xcr0_low), "=d"(xcr0_high) : "c"(0));
  if ((xcr0_low & kTileState) != kTileState) return false;
  return ::syscall(SYS_arch_prctl, kArchReqXcompPerm, kXtileData) == 0;
#else
  return false;
#endif
}

Isa detect_isa() {
  const Isa vectors = detect_vector_isa();
  const bool wide = vectors == Isa::kAvx512 && detect_avx512_bf16() && detect_avx512_vnni();
  return wide && detect_amx() ? Isa::kAmx : vectors;
}

constexpr std::array kAllIsas{Isa::kPortable,   Isa::kAvx2Core, Isa::kAvx2, Isa::kAvx512Core,
                              Isa::kAvx512Vnni, Isa::kAvx512,   Isa::kAmx,  Isa::kAmxEmulated};

bool is_full_avx512(Isa isa) { return isa == Isa::kAvx512 || isa == Isa::kAmx; }

}  // namespace

Isa best_isa() {
  static const Isa isa = detect_isa();
  return isa;
}

bool has_isa(Isa isa) {
  if (isa == Isa::kAvx512Vnni) return has_avx512_vnni();
  return isa == Isa::kAmxEmulated || isa <= best_isa();
}

bool has_avx_vnni() {
  static const bool has = detect_avx_vnni();
  return has;
}
bool uses_avx_vnni(Isa isa) { return isa == Isa::kAvx2 && has_avx_vnni(); }

bool has_avx512_bf16() {
  static const bool has = detect_avx512_bf16();
  return has;
}

bool has_avx512_vnni() {
  static const bool has = detect_avx512_vnni();
  return has;
}

bool has_avx512_fp16() {
#if defined(__x86_64__)
  constexpr unsigned kAvx512Fp16 = 1u << 23;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  static const bool has = detect_vector_isa() == Isa::kAvx512 &&
                          __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 &&
                          (edx & kAvx512Fp16) != 0;
  return has;
#else
  return false;
#endif
}

bool uses_avx512_bf16(Isa isa) { return is_full_avx512(isa) && has_avx512_bf16(); }
bool uses_avx512_vnni(Isa isa) {
  return (is_full_avx512(isa) || isa == Isa::kAvx512Vnni) && has_avx512_vnni();
}

std::string_view to_string(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return "portable";
    case Isa::kAvx2Core:
      return "avx2-core";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512Core:
      return "avx512-core";
    case Isa::kAvx512Vnni:
      return "avx512-vnni";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAmx:
      return "amx";
    case Isa::kAmxEmulated:
      return "amx-emulated";
  }
  return "unknown";
}

Result<Isa> parse_isa(std::string_view name) {
  if (name == "auto") return best_isa();
  const auto* isa = std::find_if(kAllIsas.begin(), kAllIsas.end(),
                                 [&](Isa candidate) { return to_string(candidate) == name; });
  if (isa == kAllIsas.end()) {
    return invalid_argument(
        "--isa: expected auto, portable, avx2-core, avx2, avx512-core, avx512-vnni, avx512, amx or "
        "amx-emulated, got '{}'",
        name);
  }
  if (!has_isa(*isa)) {
    return invalid_argument(
        "--isa: '{}' asked for, but the best that this CPU and this build have is '{}'", name,
        to_string(best_isa()));
  }
  return *isa;
}

}  // namespace quire
