// quire_cuda_bench: the table of a GPU's kernels, one line each: us, GB/s or TFLOP/s. The first
// rows measure the limits that the others are held against. Prints SKIPPED where there is no GPU.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "base/clock.h"
#include "device/cuda_device.h"
#include "kernels/api/attention.h"
#include "kernels/api/linear.h"
#include "kernels/api/sampling.h"
#include "kernels/cuda/quant_weight.h"
#include "kernels/cuda_ops.h"

namespace quire {
namespace {

class GpuBench {
 public:
  GpuBench(Device& device, Arena memory) : device_(device), memory_(std::move(memory)) {
    base_ = static_cast<std::byte*>(memory_.allocate_bytes(memory_.capacity_bytes()));
    const std::vector<uint16_t> random = random_bf16();
    const int64_t piece = static_cast<int64_t>(random.size()) * 2;
    for (int64_t at = 0; at + piece <= memory_.capacity_bytes(); at += piece)
      device_.copy_to_device(base_ + at, random.data(), piece);
    (void)device_.synchronize();
  }

  // Random bf16 near 0; never the same lines twice in a row, so that the cache does not help.
  std::byte* next(int64_t num_bytes) {
    num_bytes = Arena::padded(num_bytes);
    if (at_ + num_bytes > memory_.capacity_bytes()) at_ = 0;
    std::byte* memory = base_ + at_;
    at_ += num_bytes;
    return memory;
  }

  // Median of 7 rounds of 10 calls, in microseconds.
  double time_us(const std::function<void()>& call) {
    const SteadyClock clock;
    std::vector<double> rounds;
    for (int round = 0; round < 8; ++round) {
      const int64_t start = clock.now_us();
      for (int i = 0; i < 10; ++i) call();
      const Status status = device_.synchronize();
      if (!status.ok()) {
        fmt::print("  {}\n", status.message());
        return 0.0;
      }
      if (round > 0) rounds.push_back(static_cast<double>(clock.now_us() - start) / 10.0);
    }
    std::nth_element(rounds.begin(), rounds.begin() + 3, rounds.end());
    return rounds[3];
  }

  void copy() {
    const int64_t bytes = int64_t{1} << 30;
    const double us = time_us([&] { device_.copy_on_device(next(bytes), next(bytes), bytes); });
    print("copy 1 GiB, read + write", us, 2.0 * static_cast<double>(bytes), 0.0);
  }

  void linear_row(const char* name, int64_t m, int64_t n, int64_t k) {
    const WeightSpec spec{.n = n, .k = k, .compute = ComputeType::kBF16};
    std::byte* workspace = next(linear_workspace_bytes(device_.stream(), m, spec));
    const double us = time_us([&] {
      const PackedWeight weight{spec, next(n * k * 2)};
      linear(device_.stream(), {.x = ConstActivations(next(m * k * 2), DType::kBF16),
                                .x_stride = k,
                                .weight = &weight,
                                .y = Activations(next(m * n * 2), DType::kBF16),
                                .y_stride = n,
                                .num_rows = m,
                                .workspace = workspace});
    });
    print(fmt::format("linear {} M {}", name, m), us,
          2.0 * static_cast<double>(n * k + m * (n + k)), 2.0 * static_cast<double>(m * n * k));
  }

  // Codes and scales are whatever lies there: what they say does not matter to the time.
  void quant_linear_row(const char* name, const QuantSpec& quant, int64_t m, int64_t n, int64_t k) {
    const WeightSpec spec{.n = n, .k = k, .compute = ComputeType::kBF16, .quant = quant};
    const int64_t weight_bytes = cuda::quant_weight_layout(spec).num_bytes;
    const double us = time_us([&] {
      const PackedWeight weight{spec, next(weight_bytes)};
      linear(device_.stream(), {.x = ConstActivations(next(m * k * 2), DType::kBF16),
                                .x_stride = k,
                                .weight = &weight,
                                .y = Activations(next(m * n * 2), DType::kBF16),
                                .y_stride = n,
                                .num_rows = m});
    });
    print(fmt::format("linear {} {} x {} M {}", name, n, k, m), us,
          static_cast<double>(weight_bytes + 2 * m * (n + k)),
          2.0 * static_cast<double>(m * n * k));
  }

  // Logits uniform in (-1, 1): with temperature 0.1 about as sharp as a model's.
  void sampler_row(const char* name, const SampleRow& row, int64_t batch) {
    constexpr int64_t kVocab = 151936;
    std::vector<SampleRow> rows(static_cast<size_t>(batch), row);
    for (size_t i = 0; i < rows.size(); ++i) rows[i].seed = i;
    auto* on_device = next(batch * int64_t{sizeof(SampleRow)});
    device_.copy_to_device(on_device, rows.data(), batch * int64_t{sizeof(SampleRow)});
    auto* out = next(batch * int64_t{sizeof(SampledToken)});
    const double us = time_us([&] {
      sample_rows(device_.stream(), {.logits = reinterpret_cast<float*>(next(batch * kVocab * 4)),
                                     .rows = reinterpret_cast<SampleRow*>(on_device),
                                     .num_rows = batch,
                                     .vocab_size = kVocab,
                                     .out = reinterpret_cast<SampledToken*>(out)});
    });
    print(fmt::format("sample {} V {} B {}", name, kVocab, batch), us,
          static_cast<double>(batch * kVocab * 4), 0.0);
  }

  void attention_row(const std::vector<int32_t>& context, int32_t query_len,
                     DType cache_dtype = DType::kBF16) {
    constexpr int32_t kHeads = 32, kKvHeads = 8, kDim = 128, kBlock = 16;
    const auto reqs = static_cast<int32_t>(context.size());
    std::vector<int32_t> start{0}, lens, table;
    int64_t tokens = 0;
    double flops = 0.0;
    const int64_t max_blocks =
        (*std::max_element(context.begin(), context.end()) + query_len + kBlock - 1) / kBlock;
    for (const int32_t length : context) {
      start.push_back(start.back() + query_len);
      lens.push_back(length + query_len);
      for (int64_t b = 0; b < max_blocks; ++b)
        table.push_back(static_cast<int32_t>(tokens / kBlock + b));
      tokens += (lens.back() + kBlock - 1) / kBlock * kBlock;
      flops += 4.0 * kHeads * kDim * query_len * (length + query_len / 2.0);
    }
    const int64_t element = size_bytes(cache_dtype);
    const int64_t cache = (tokens + max_blocks * kBlock) * kKvHeads * kDim * element;
    const int64_t rows = start.back();
    PagedAttentionParams p;
    p.query = ConstActivations(next(rows * (kHeads + 2 * kKvHeads) * kDim * 2), DType::kBF16);
    p.query_stride = (kHeads + 2 * kKvHeads) * kDim;
    p.kv = {.key = next(cache),
            .value = next(cache),
            .dtype = cache_dtype,
            .block_stride = int64_t{kKvHeads} * kBlock * kDim,
            .block_size = kBlock,
            .num_kv_heads = kKvHeads,
            .head_dim = kDim,
            .order = KvOrder::kTokenMajor};
    p.query_start_loc = upload(start);
    p.seq_lens = upload(lens);
    p.block_table = upload(table);
    p.max_blocks = max_blocks;
    p.num_reqs = reqs;
    p.num_heads = kHeads;
    p.scale = 0.088f;
    p.out = Activations(next(rows * kHeads * kDim * 2), DType::kBF16);
    p.workspace_bytes = paged_attention_workspace_bytes(
        device_.stream(), rows, reqs, static_cast<int64_t>(max_blocks) * kBlock, kHeads, kDim);
    p.workspace = next(p.workspace_bytes);
    p.batch_cut = next(paged_attention_cut_bytes(device_.stream(), reqs));
    p.max_query_len = query_len;
    const double us = time_us([&] { paged_attention(device_.stream(), p); });
    const double read = 2.0 * static_cast<double>(element * tokens) * kKvHeads * kDim;
    print(fmt::format("attention 32/8 d 128 {}: {} requests, query {}, context up to {}",
                      to_string(cache_dtype), reqs, query_len,
                      *std::max_element(context.begin(), context.end())),
          us, read, flops);
  }

 private:
  static std::vector<uint16_t> random_bf16() {
    std::vector<uint16_t> values(size_t{1} << 24);
    uint32_t state = 1;
    for (uint16_t& value : values) {
      state = state * 1664525u + 1013904223u;
      const float x = static_cast<float>(state >> 8) * 0x1p-23f - 1.0f;
      value = to_bfloat16(x).bits;
    }
    return values;
  }
  int32_t* upload(const std::vector<int32_t>& values) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(int32_t));
    auto* memory = reinterpret_cast<int32_t*>(next(bytes));
    device_.copy_to_device(memory, values.data(), bytes);
    return memory;
  }
  static void print(const std::string& name, double us, double bytes, double flops) {
    if (us <= 0.0) return;
    fmt::print("{:<62} {:>10.1f} us {:>8.0f} GB/s {:>8.1f} TFLOP/s\n", name, us, bytes / us * 1e-3,
               flops / us * 1e-6);
  }

  Device& device_;
  Arena memory_;
  std::byte* base_ = nullptr;
  int64_t at_ = 0;
};

int run() {
  Result<std::unique_ptr<Device>> device = open_cuda_device({}, cuda_ops());
  if (!device.ok()) {
    fmt::print("SKIPPED: {}\n", device.status().message());
    return 0;
  }
  const DeviceInfo info = (*device)->info();
  Result<Arena> memory =
      (*device)->allocate(std::min(info.free_memory_bytes / 2, int64_t{24} << 30));
  if (!memory.ok()) {
    fmt::print("{}\n", memory.status().message());
    return 1;
  }
  GpuBench bench(**device, std::move(*memory));
  for (const bool deterministic : {true, false}) {
    (*device)->stream().set_deterministic(deterministic);
    fmt::print("{}, {} SMs, {}\n", info.name, info.gpu.num_sms,
               deterministic ? "deterministic" : "not deterministic");
    bench.copy();
    for (const int64_t m : {1, 8, 16, 64, 128, 256, 1024, 8192}) {
      bench.linear_row("8B qkv 6144 x 4096", m, 6144, 4096);
      bench.linear_row("8B gate_up 28672 x 4096", m, 28672, 4096);
    }
    const QuantSpec int4{.bits = 4, .offset = 8, .group_size = 128, .scale_type = ScaleType::kF16};
    const QuantSpec fp8{.bits = 8, .codebook = Codebook::kE4M3, .group_size = 128};
    for (const int64_t m : {1, 8, 16, 64, 256, 1024}) {
      bench.quant_linear_row("int4 g128", int4, m, 28672, 4096);
      bench.quant_linear_row("fp8 128 x 128", fp8, m, 28672, 4096);
    }
    for (const int64_t batch : {1, 32, 256}) {
      bench.sampler_row("greedy", {}, batch);
      bench.sampler_row("temperature", {.inverse_temperature = 10.0f}, batch);
      bench.sampler_row("top_p 0.9", {.inverse_temperature = 10.0f, .top_p = 0.9f}, batch);
    }
    for (const DType cache_dtype : {DType::kBF16, DType::kF8E4M3}) {
      for (const int32_t reqs : {1, 8, 32, 128}) {
        const std::vector<int32_t> context(static_cast<size_t>(reqs), 4096);
        bench.attention_row(context, 1, cache_dtype);
      }
    }
    std::vector<int32_t> mixed(32);
    for (size_t i = 0; i < mixed.size(); ++i) mixed[i] = static_cast<int32_t>(100 + i * i * 16);
    bench.attention_row(mixed, 1);
    for (const int32_t length : {1024, 8192}) bench.attention_row({0}, length);
  }
  return 0;
}

}  // namespace
}  // namespace quire

int main() { return quire::run(); }
