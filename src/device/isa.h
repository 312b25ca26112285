#pragma once

#include <string_view>

#include "base/result.h"
#include "device/stream.h"

namespace quire {

// The best instruction set of this CPU that its kernels need: kAvx2 wants AVX2+FMA+F16C; kAvx512
// wants F, BW, DQ, VL.
Isa best_isa();
// AVX512_BF16 is there too (vdpbf16ps): a refinement inside kAvx512.
bool has_avx512_bf16();

std::string_view to_string(Isa isa);  // "portable", "avx2", "avx512"
// "auto" gives best_isa(); an unknown name or one this CPU lacks is an error.
Result<Isa> parse_isa(std::string_view name);

}  // namespace quire
