// Recurrences over the tokens of one sequence.
#include <fmt/format.h>

#include "kernels/api/delta_rule.h"
#include "kernels/api/selective_scan.h"
#include "kernels/api/ssd_scan.h"
#include "kernels/bench/model_bench.h"

namespace quire::bench {
namespace {

// The states of one sequence. Each call reads a block of a pool of states and writes the next one.
class StatePool {
 public:
  StatePool(HostStream& stream, int64_t tokens, int64_t state_floats)
      : tokens_(static_cast<int32_t>(tokens)),
        stride_(cpu::round_up(state_floats, 16)),
        num_blocks_(static_cast<int32_t>(
            std::max<int64_t>(2, cold_bytes(stream.team().size()) / (stride_ * 4)))),
        memory_((num_blocks_ + 1) * stride_ * 4) {
    fill(stream, memory_.data(), (num_blocks_ + 1) * stride_ * 4);
    starts_[1] = tokens_;
  }

  StateSegments segments(int call) {
    in_ = 1 + call % num_blocks_;
    out_ = 1 + (call + 1) % num_blocks_;
    return {.start_loc = starts_, .state_in = &in_, .state_out = &out_, .num_segments = 1};
  }
  StateView view() const { return {reinterpret_cast<float*>(memory_.data()), stride_}; }
  // Counts one read and one write of the state.
  double bytes() const { return 2.0 * 4.0 * static_cast<double>(stride_); }

 private:
  int32_t tokens_;
  int64_t stride_;
  int32_t num_blocks_;
  Mapping memory_;
  int32_t starts_[2] = {};
  int32_t in_ = 0, out_ = 0;
};

std::vector<float> values(int64_t count) {
  return std::vector<float>(static_cast<size_t>(count), 0.01f);
}

void bench_ssd(BenchRows& rows, int64_t tokens) {
  constexpr int32_t kHeads = 64;  // of Mamba-2 1.3B
  constexpr int64_t kHeadDim = 64, kStates = 128;
  constexpr int64_t kRow = kHeads * kHeadDim + 2 * kStates;
  StatePool pool(rows.stream(), tokens, ssd_scan_state_floats(kHeads, kHeadDim, kStates));
  std::vector<float> x = values(tokens * kRow), gates = values(tokens * kHeads),
                     out = values(tokens * kRow);
  const double elements = static_cast<double>(tokens * kHeads * kHeadDim * kStates);
  rows.measure({fmt::format("ssd_scan mamba2-1.3b m={}", tokens), pool.bytes(), 6 * elements,
                rows.peaks().f32_gflop_per_s},
               [&](int i) {
                 ssd_scan(rows.stream(), {.x = x.data(),
                                          .b = x.data() + kHeads * kHeadDim,
                                          .c = x.data() + kHeads * kHeadDim + kStates,
                                          .x_stride = kRow,
                                          .delta = gates.data(),
                                          .decay = gates.data(),
                                          .d = gates.data(),
                                          .out = out.data(),
                                          .segments = pool.segments(i),
                                          .state = pool.view(),
                                          .num_heads = kHeads,
                                          .num_groups = 1,
                                          .head_dim = kHeadDim,
                                          .num_states = kStates});
               });
}

void bench_delta_rule(BenchRows& rows, int64_t tokens) {
  constexpr int32_t kHeads = 32, kKeyHeads = 16;  // of Qwen3.5-9B
  constexpr int64_t kDim = 128;
  constexpr int64_t kKeys = kKeyHeads * kDim;
  constexpr int64_t kRow = 2 * kKeys + kHeads * kDim;
  StatePool pool(rows.stream(), tokens, delta_rule_state_floats(kHeads, kDim, kDim));
  std::vector<float> qkv = values(tokens * kRow), gates = values(tokens * kHeads),
                     out = values(tokens * kHeads * kDim);
  const double elements = static_cast<double>(tokens * kHeads * kDim * kDim);
  rows.measure({fmt::format("delta_rule qwen3.5-9b m={}", tokens), pool.bytes(), 7 * elements,
                rows.peaks().f32_gflop_per_s},
               [&](int i) {
                 delta_rule(rows.stream(), {.q = qkv.data(),
                                            .k = qkv.data() + kKeys,
                                            .v = qkv.data() + 2 * kKeys,
                                            .qkv_stride = kRow,
                                            .decay = gates.data(),
                                            .beta = gates.data(),
                                            .out = out.data(),
                                            .segments = pool.segments(i),
                                            .state = pool.view(),
                                            .num_heads = kHeads,
                                            .num_key_heads = kKeyHeads,
                                            .key_dim = kDim,
                                            .value_dim = kDim});
               });
}

void bench_selective_scan(BenchRows& rows, int64_t tokens) {
  constexpr int64_t kChannels = 8192, kStates = 16;  // of Falcon-Mamba 7B
  StatePool pool(rows.stream(), tokens, selective_scan_state_floats(kChannels, kStates));
  std::vector<float> x = values(tokens * kChannels), delta = x, out = x,
                     bc = values(tokens * 2 * kStates), a = values(kChannels * kStates);
  const double elements = static_cast<double>(tokens * kChannels * kStates);
  rows.measure({fmt::format("selective_scan falcon-mamba-7b m={}", tokens), pool.bytes(),
                6 * elements, rows.peaks().f32_gflop_per_s},
               [&](int i) {
                 selective_scan(rows.stream(), {.x = x.data(),
                                                .x_stride = kChannels,
                                                .delta = delta.data(),
                                                .b = bc.data(),
                                                .c = bc.data() + kStates,
                                                .bc_stride = 2 * kStates,
                                                .a = a.data(),
                                                .d = a.data(),
                                                .out = out.data(),
                                                .segments = pool.segments(i),
                                                .state = pool.view(),
                                                .num_channels = kChannels,
                                                .num_states = kStates});
               });
}

}  // namespace

void bench_states(BenchRows& rows) {
  static const std::vector<int64_t> kTokens = {1, 512};
  for (const int64_t tokens : rows.row_counts(kTokens)) {
    if (rows.may_be_wanted("ssd_scan mamba2-1.3b")) bench_ssd(rows, tokens);
    if (rows.may_be_wanted("delta_rule qwen3.5-9b")) bench_delta_rule(rows, tokens);
    if (rows.may_be_wanted("selective_scan falcon-mamba-7b")) bench_selective_scan(rows, tokens);
  }
}

}  // namespace quire::bench
