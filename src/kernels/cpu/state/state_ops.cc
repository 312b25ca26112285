// The ops of states. Work is divided by columns, heads and channels, never by tokens. One thread
// computes all segments of a column in order, so the bits of a state do not depend on threads.
#include <algorithm>

#include "kernels/api/causal_conv.h"
#include "kernels/api/delta_rule.h"
#include "kernels/api/gated_norm.h"
#include "kernels/api/selective_scan.h"
#include "kernels/api/ssd_scan.h"
#include "kernels/api/step_gates.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/state/state_kernels.h"

namespace quire {
namespace {

// The columns of a task of ssd_scan() and delta_rule(), and the channels of a task of the others.
constexpr int64_t kColumns = 32;
constexpr int64_t kChannels = 16;
// With fewer elements, waking the team costs more than it saves.
constexpr int64_t kWork = 1 << 13;

const cpu::StateKernels& state_kernels(Isa isa) {
#ifdef QUIRE_X86_KERNELS
  return cpu::by_width(isa, cpu::kStatePortable, cpu::kStateAvx2, cpu::kStateAvx512);
#else
  (void)isa;
  return cpu::kStatePortable;
#endif
}

static_assert(static_cast<int>(Gate::kNone) == cpu::kGateNone &&
              static_cast<int>(Gate::kSilu) == cpu::kGateSilu &&
              static_cast<int>(Gate::kSigmoid) == cpu::kGateSigmoid);
cpu::GateKind gate_kind(Gate gate) { return static_cast<cpu::GateKind>(gate); }

// `offset` is that of the task's part in each state.
cpu::SegmentArgs segment_args(const StateSegments& segments, const StateView& view,
                              int64_t offset) {
  return {segments.start_loc,    segments.state_in,  segments.state_out,
          segments.num_segments, view.data + offset, view.block_stride};
}

int64_t num_tokens(const StateSegments& segments) {
  return segments.start_loc[segments.num_segments] - segments.start_loc[0];
}

// Calls task(i) for i in [0, count) on the team, for `work` elements in all.
template <typename Task>
void for_tasks(const HostStream& stream, int64_t count, int64_t work, const Task& task) {
  cpu::run_parallel(stream, work, kWork, [&](int thread, int num_threads) {
    const WorkRange mine = split_work(count, 1, thread, num_threads);
    for (int64_t i = mine.begin; i < mine.end; ++i) task(i);
  });
}

const float* at(const float* p, int64_t offset) { return p == nullptr ? nullptr : p + offset; }

}  // namespace

void cpu::causal_conv(Stream& stream, const CausalConvParams& params) {
  const HostStream& cpu_stream = cpu::host(stream);
  const auto& kernels = state_kernels(cpu_stream.isa());
  const int64_t channels = params.num_channels;
  QUIRE_DCHECK(params.kernel_size >= 1 && params.kernel_size <= kMaxConvKernel,
               "[causal_conv] {} taps", params.kernel_size);
  for_tasks(cpu_stream, (channels + kChannels - 1) / kChannels,
            num_tokens(params.segments) * channels, [&](int64_t task) {
              const int64_t first = task * kChannels;
              kernels.conv({.segments = segment_args(params.segments, params.state, first),
                            .x = params.x + first,
                            .in_gate = at(params.in_gate, first),
                            .out_gate = at(params.out_gate, first),
                            .x_stride = params.x_stride,
                            .weight = params.weight + first * params.kernel_size,
                            .bias = at(params.bias, first),
                            .silu = params.silu,
                            .out = params.out + first,
                            .out_stride = params.out_stride,
                            .kernel_size = params.kernel_size,
                            .num_channels = channels,
                            .count = std::min(kChannels, channels - first)});
            });
}

void cpu::selective_scan(Stream& stream, const SelectiveScanParams& params) {
  const HostStream& cpu_stream = cpu::host(stream);
  const auto& kernels = state_kernels(cpu_stream.isa());
  const int64_t channels = params.num_channels;
  QUIRE_DCHECK(params.num_states <= kMaxScanStates, "[selective_scan] {} states",
               params.num_states);
  for_tasks(
      cpu_stream, (channels + kChannels - 1) / kChannels,
      num_tokens(params.segments) * channels * params.num_states, [&](int64_t task) {
        const int64_t first = task * kChannels;
        kernels.selective_scan({.segments = segment_args(params.segments, params.state, first),
                                .x = params.x + first,
                                .x_stride = params.x_stride,
                                .delta = params.delta + first,
                                .b = params.b,
                                .c = params.c,
                                .bc_stride = params.bc_stride,
                                .a = params.a + first * params.num_states,
                                .d = params.d + first,
                                .out = params.out + first,
                                .num_channels = channels,
                                .num_states = params.num_states,
                                .count = std::min(kChannels, channels - first)});
      });
}

void cpu::ssd_scan(Stream& stream, const SsdScanParams& params) {
  const HostStream& cpu_stream = cpu::host(stream);
  const auto& kernels = state_kernels(cpu_stream.isa());
  QUIRE_DCHECK(params.num_states <= kMaxScanStates, "[ssd_scan] {} states", params.num_states);
  const int64_t heads = params.num_heads;
  const int64_t tasks = (params.head_dim + kColumns - 1) / kColumns;  // of a head
  const int64_t head_floats = ssd_scan_state_floats(1, params.head_dim, params.num_states);
  const int64_t work = num_tokens(params.segments) * heads * params.head_dim * params.num_states;
  for_tasks(cpu_stream, heads * tasks, work, [&](int64_t task) {
    const int64_t head = task / tasks;
    const int64_t column = task % tasks * kColumns;
    const int64_t group = head * params.num_groups / heads * params.num_states;
    const int64_t x = head * params.head_dim + column;
    kernels.ssd({.segments = segment_args(params.segments, params.state,
                                          head * head_floats + column * params.num_states),
                 .x = params.x + x,
                 .b = params.b + group,
                 .c = params.c + group,
                 .x_stride = params.x_stride,
                 .delta = params.delta + head,
                 .decay = params.decay + head,
                 .num_heads = heads,
                 .d = params.d[head],
                 .out = params.out + x,
                 .out_stride = heads * params.head_dim,
                 .num_states = params.num_states,
                 .count = std::min(kColumns, params.head_dim - column)});
  });
}

void cpu::delta_rule(Stream& stream, const DeltaRuleParams& params) {
  const HostStream& cpu_stream = cpu::host(stream);
  const auto& kernels = state_kernels(cpu_stream.isa());
  QUIRE_DCHECK(params.key_dim <= kMaxDeltaKeyDim, "[delta_rule] keys of {}", params.key_dim);
  const int64_t heads = params.num_heads;
  const int64_t tasks = (params.value_dim + kColumns - 1) / kColumns;  // of a head
  const int64_t head_floats = delta_rule_state_floats(1, params.key_dim, params.value_dim);
  const int64_t decays = params.has_channel_decay ? params.key_dim : 1;  // of a head
  const int64_t work = num_tokens(params.segments) * heads * params.key_dim * params.value_dim;
  for_tasks(cpu_stream, heads * tasks, work, [&](int64_t task) {
    const int64_t head = task / tasks;
    const int64_t column = task % tasks * kColumns;
    const int64_t key =
        (params.tiled_heads ? head % params.num_key_heads : head * params.num_key_heads / heads) *
        params.key_dim;
    const int64_t v = head * params.value_dim + column;
    kernels.delta_rule({.segments = segment_args(params.segments, params.state,
                                                 head * head_floats + column * params.key_dim),
                        .q = params.q + key,
                        .k = params.k + key,
                        .v = params.v + v,
                        .qkv_stride = params.qkv_stride,
                        .decay = params.decay + head * decays,
                        .decay_stride = heads * decays,
                        .has_channel_decay = params.has_channel_decay,
                        .beta = params.beta + head,
                        .beta_stride = heads,
                        .out = params.out + v,
                        .out_stride = heads * params.value_dim,
                        .key_dim = params.key_dim,
                        .count = std::min(kColumns, params.value_dim - column)});
  });
}

void cpu::step_gates(Stream& stream, const StepGatesParams& params) {
  const HostStream& cpu_stream = cpu::host(stream);
  const auto& kernels = state_kernels(cpu_stream.isa());
  const int64_t run = params.repeat > 1 ? params.repeat : params.size;
  const int64_t runs = params.size / run;
  for_tasks(cpu_stream, params.num_tokens * runs, params.num_tokens * params.size,
            [&](int64_t task) {
              const int64_t t = task / runs;
              const int64_t first = task % runs * run;
              const int64_t to = t * params.size + first;
              kernels.step_gates({.x = params.x + t * params.x_stride + first,
                                  .bias = at(params.bias, first),
                                  .a = at(params.a, first / params.repeat),
                                  .one_a = params.repeat > 1,
                                  .min_delta = params.min_delta,
                                  .max_delta = params.max_delta,
                                  .delta = params.delta == nullptr ? nullptr : params.delta + to,
                                  .decay = params.decay == nullptr ? nullptr : params.decay + to,
                                  .n = run});
            });
}

void cpu::sigmoid(Stream& stream, const SigmoidParams& params) {
  const HostStream& cpu_stream = cpu::host(stream);
  const auto& kernels = state_kernels(cpu_stream.isa());
  for_tasks(cpu_stream, params.num_tokens, params.num_tokens * params.size, [&](int64_t t) {
    kernels.sigmoid(params.x + t * params.x_stride, params.out + t * params.size, params.size);
  });
}

void cpu::gated_norm(Stream& stream, const GatedNormParams& params) {
  const HostStream& cpu_stream = cpu::host(stream);
  const auto& kernels = state_kernels(cpu_stream.isa());
  const int64_t groups = params.size / params.group_size;
  const float scale =
      params.scale_factor == nullptr ? params.scale : params.scale * *params.scale_factor;
  const cpu::GateKind act = gate_kind(params.act);
  for_tasks(cpu_stream, params.num_tokens * groups, params.num_tokens * params.size,
            [&](int64_t task) {
              const int64_t t = task / groups;
              const int64_t first = task % groups * params.group_size;
              kernels.gated_norm({.x = params.x + t * params.x_stride + first,
                                  .act = act,
                                  .gate = at(params.gate, t * params.gate_stride + first),
                                  .gate_first = params.gate_first,
                                  .normalizes = params.normalizes,
                                  .weight = at(params.weight, params.shared_weight ? 0 : first),
                                  .scale = scale,
                                  .eps = params.eps,
                                  .n = params.group_size});
            });
}

}  // namespace quire
