#pragma once

#include <string_view>

#include "base/result.h"
#include "device/stream.h"

namespace quire {

// Returns the best instruction set that this process may use. kAvx2 (like kAvx2Core, which is never
// the best) requires AVX2, FMA and F16C. kAvx512 (like kAvx512Core and kAvx512Vnni, which are never
// the best either) requires F, BW, DQ and VL. kAmx requires kAvx512 with BF16 and VNNI, AMX-TILE,
// AMX-BF16 and AMX-INT8, and the operating system's permission to use tile registers. The first
// call of either of these two functions asks for the permission; if it is refused, the result is
// kAvx512.
Isa best_isa();
// Returns whether kernels for `isa` run here. It is true for kPortable and kAmxEmulated everywhere.
bool has_isa(Isa isa);
// Returns whether this CPU has AVX512_FP16 (half-precision arithmetic).
bool has_avx512_fp16();
// The first returns whether this CPU has AVX-VNNI (vpdpbusd of 256 bits without AVX-512). The
// second returns whether kernels for `isa` may use it; only those of kAvx2 may.
bool has_avx_vnni();
bool uses_avx_vnni(Isa isa);
// Return whether this CPU has AVX512_BF16 (vdpbf16ps) and AVX512_VNNI (vpdpbusd).
bool has_avx512_bf16();
bool has_avx512_vnni();
// Return whether kernels for `isa` may use these: both with kAvx512 and kAmx, and VNNI also with
// kAvx512Vnni.
bool uses_avx512_bf16(Isa isa);
bool uses_avx512_vnni(Isa isa);

// Returns "portable", "avx2-core", "avx2", "avx512-core", "avx512-vnni", "avx512", "amx", …
std::string_view to_string(Isa isa);
// "auto" gives best_isa(); an unknown name or one that this CPU lacks is an error.
Result<Isa> parse_isa(std::string_view name);

}  // namespace quire
