// The table of state kernels that the object file of each instruction set exports.
#pragma once

#include "kernels/cpu/state/conv-inl.h"
#include "kernels/cpu/state/delta-inl.h"
#include "kernels/cpu/state/scan-inl.h"
#include "kernels/cpu/state/state-inl.h"
#include "kernels/cpu/state/state_kernels.h"

namespace quire {
namespace {

constexpr cpu::StateKernels kStateOverVectors = {
    .conv = &conv_columns,
    .selective_scan = &scan_columns,
    .ssd = &ssd_columns,
    .delta_rule = &delta_columns,
    .step_gates = &step_gates_row,
    .sigmoid = &sigmoid_row,
    .gated_norm = &gated_norm_group,
};

}  // namespace
}  // namespace quire
