#include "device/isa.h"

#include <algorithm>
#include <array>

namespace quire {
namespace {

// The compiler's CPU model also asks the OS (XGETBV) whether it saves the wide registers.
Isa detect_isa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  if (avx512) return Isa::kAvx512;
  if (avx2) return Isa::kAvx2;
#endif
  return Isa::kPortable;
}

bool detect_avx512_bf16() {
#if defined(__x86_64__)
  return detect_isa() == Isa::kAvx512 && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

constexpr std::array kAllIsas{Isa::kPortable, Isa::kAvx2, Isa::kAvx512};

}  // namespace

Isa best_isa() {
  static const Isa isa = detect_isa();
  return isa;
}

bool has_avx512_bf16() {
  static const bool has = detect_avx512_bf16();
  return has;
}

std::string_view to_string(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return "portable";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
  }
  return "unknown";
}

Result<Isa> parse_isa(std::string_view name) {
  if (name == "auto") return best_isa();
  const auto* isa = std::find_if(kAllIsas.begin(), kAllIsas.end(),
                                 [&](Isa candidate) { return to_string(candidate) == name; });
  if (isa == kAllIsas.end()) {
    return invalid_argument("isa: expected auto, portable, avx2 or avx512, got '{}'", name);
  }
  if (*isa > best_isa()) {
    return invalid_argument("isa: '{}' asked for, but the best that this CPU has is '{}'", name,
                            to_string(best_isa()));
  }
  return *isa;
}

}  // namespace quire
