// Measures the ops of states: requests that decode, which read and write their states once, and a
// prompt, whose tokens depend on each other.
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "kernels/api/causal_conv.h"
#include "kernels/api/delta_rule.h"
#include "kernels/api/selective_scan.h"
#include "kernels/api/ssd_scan.h"
#include "kernels/cuda/gpu_bench_table.h"

namespace quire::cuda {
namespace {

struct StateBatch {
  int32_t num_segments;
  int32_t num_tokens;  // of each sequence
};
constexpr StateBatch kBatches[] = {{1, 1}, {32, 1}, {1, 2048}};

// Shapes of an 8B model: channels; heads and their dims; rows of a state's columns.
constexpr int64_t kChannels = 8192;
constexpr int64_t kChannelStates = 16;
constexpr int32_t kConvKernel = 4;
constexpr int32_t kHeads = 64;
constexpr int64_t kHeadDim = 128;
constexpr int64_t kRows = 128;

// The buffers and sizes of a call.
struct StateCall {
  Stream& stream;
  StateSegments segments;
  StateView state;
  std::function<float*(int64_t)> input;  // returns so many floats
  std::function<float*(int64_t)> output;
  int64_t num_tokens;
};

struct StateOp {
  const char* name;
  int64_t state_floats;
  int64_t token_floats;  // read and written for each token
  void (*run)(const StateCall&);
};

void run_conv(const StateCall& call) {
  causal_conv(call.stream, {.x = call.input(call.num_tokens * kChannels),
                            .x_stride = kChannels,
                            .weight = call.input(kChannels * kConvKernel),
                            .silu = true,
                            .out = call.output(call.num_tokens * kChannels),
                            .out_stride = kChannels,
                            .segments = call.segments,
                            .state = call.state,
                            .kernel_size = kConvKernel,
                            .num_channels = kChannels});
}

void run_selective_scan(const StateCall& call) {
  selective_scan(call.stream, {.x = call.input(call.num_tokens * kChannels),
                               .x_stride = kChannels,
                               .delta = call.input(call.num_tokens * kChannels),
                               .b = call.input(call.num_tokens * kChannelStates),
                               .c = call.input(call.num_tokens * kChannelStates),
                               .bc_stride = kChannelStates,
                               .a = call.input(kChannels * kChannelStates),
                               .d = call.input(kChannels),
                               .out = call.output(call.num_tokens * kChannels),
                               .segments = call.segments,
                               .state = call.state,
                               .num_channels = kChannels,
                               .num_states = kChannelStates});
}

void run_ssd_scan(const StateCall& call) {
  const int64_t stride = kHeads * kHeadDim + 2 * kRows;
  const float* x = call.input(call.num_tokens * stride);
  ssd_scan(call.stream, {.x = x,
                         .b = x + kHeads * kHeadDim,
                         .c = x + kHeads * kHeadDim + kRows,
                         .x_stride = stride,
                         .delta = call.input(call.num_tokens * kHeads),
                         .decay = call.input(call.num_tokens * kHeads),
                         .d = call.input(kHeads),
                         .out = call.output(call.num_tokens * kHeads * kHeadDim),
                         .segments = call.segments,
                         .state = call.state,
                         .num_heads = kHeads,
                         .num_groups = 1,
                         .head_dim = kHeadDim,
                         .num_states = kRows});
}

void run_delta_rule(const StateCall& call) {
  const int64_t width = kHeads * kHeadDim;
  const float* x = call.input(call.num_tokens * 3 * width);
  delta_rule(call.stream, {.q = x,
                           .k = x + width,
                           .v = x + 2 * width,
                           .qkv_stride = 3 * width,
                           .decay = call.input(call.num_tokens * kHeads),
                           .beta = call.input(call.num_tokens * kHeads),
                           .out = call.output(call.num_tokens * width),
                           .segments = call.segments,
                           .state = call.state,
                           .num_heads = kHeads,
                           .num_key_heads = kHeads,
                           .key_dim = kRows,
                           .value_dim = kHeadDim});
}

const StateOp kOps[] = {
    {"causal_conv", causal_conv_state_floats(kConvKernel, kChannels), 2 * kChannels, run_conv},
    {"selective_scan", selective_scan_state_floats(kChannels, kChannelStates),
     3 * kChannels + 2 * kChannelStates, run_selective_scan},
    {"ssd_scan", ssd_scan_state_floats(kHeads, kHeadDim, kRows), 2 * (kHeads * kHeadDim + kRows),
     run_ssd_scan},
    {"delta_rule", delta_rule_state_floats(kHeads, kRows, kHeadDim), 4 * kHeads* kHeadDim,
     run_delta_rule},
};

void state_row(GpuBenchTable& table, const StateOp& op, const StateBatch& batch) {
  const int64_t num_tokens = int64_t{batch.num_segments} * batch.num_tokens;
  const BenchWork work{
      fmt::format("{} {} requests x {} tokens", op.name, batch.num_segments, batch.num_tokens),
      4.0 * static_cast<double>(2 * batch.num_segments * op.state_floats +
                                num_tokens * op.token_floats),
      0};
  if (!table.wanted(work.name)) return;
  std::vector<int32_t> start_loc{0}, blocks;
  for (int32_t i = 0; i < batch.num_segments; ++i) {
    start_loc.push_back(start_loc.back() + batch.num_tokens);
    blocks.push_back(i + 1);
  }
  const int32_t* starts = table.upload(start_loc);
  const int32_t* on_device = table.upload(blocks);
  const auto floats = [](std::byte* memory) { return reinterpret_cast<float*>(memory); };
  table.measure(work, [&] {
    const int64_t pool_bytes = (batch.num_segments + 1) * op.state_floats * 4;
    op.run({.stream = table.device().stream(),
            .segments = {starts, on_device, on_device, batch.num_segments},
            .state = {floats(table.result(pool_bytes)), op.state_floats},
            .input = [&](int64_t count) { return floats(table.next(count * 4)); },
            .output = [&](int64_t count) { return floats(table.result(count * 4)); },
            .num_tokens = num_tokens});
  });
}

}  // namespace

void state_rows(GpuBenchTable& table) {
  for (const StateOp& op : kOps) {
    for (const StateBatch& batch : kBatches) state_row(table, op, batch);
  }
}

}  // namespace quire::cuda
