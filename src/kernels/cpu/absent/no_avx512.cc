// These tables stand for the kernels of AVX-512 and AMX in a program that was built without them
// (QUIRE_BEST_ISA=avx2). Nothing reads them, because has_isa() is false for such sets then.
#include "kernels/cpu/attention_kernels.h"
#include "kernels/cpu/kernel_tables.h"
#include "kernels/cpu/lora/lora_kernels.h"
#include "kernels/cpu/quant/quant_tables.h"
#include "kernels/cpu/sampling/row_tables.h"
#include "kernels/cpu/sparse/index_kernels.h"
#include "kernels/cpu/state/state_kernels.h"

namespace quire {

const RowKernels kRowKernelsAvx512{};

}  // namespace quire

namespace quire::cpu {

const AttentionKernels kAttentionAvx512{};
const AttentionKernels kAttentionAvx512Bf16{};
const AttentionKernels kAttentionAvx512Codes{};
const AttentionKernels kAttentionAmx{};
const ElementKernels kElementAvx512{};
const IndexKernels kIndexAvx512{};
const LinearKernels kLinearAvx512{};
const LinearKernels kLinearAvx512Bf16{};
const LinearKernels kLinearAmx{};
const LinearKernels kLinearInt8Avx512{};
const LinearKernels kLinearInt8Avx512Vnni{};
const LinearKernels kLinearInt8Amx{};
const LoraKernels kLoraAvx512{};
const ProbeKernels kProbeAvx512{};
const ProbeKernels kProbeAvx512Bf16{};
const ProbeKernels kProbeAvx512Vnni{};
const ProbeKernels kProbeAmx{};
const QuantKernels kQuantAvx512{};
const QuantKernels kQuantAvx512Vnni{};
const QuantKernels kQuantAvx512Bytes{};
const QuantKernels kQuantAvx512Bf16{};
const QuantKernels kQuantAmx{};
const StateKernels kStateAvx512{};

}  // namespace quire::cpu
