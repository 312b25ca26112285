#include "kernels/bench/kernels_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "device/isa.h"
#include "kernels/api/activation.h"
#include "kernels/api/attention.h"
#include "kernels/api/linear.h"
#include "kernels/api/norm.h"
#include "kernels/bench/bench_kv_pool.h"
#include "kernels/bench/bench_memory.h"
#include "kernels/bench/cases.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/testing/quant_cases.h"

namespace quire {
namespace {

using bench::clock_of;
using bench::fill;
using bench::Mapping;
using bench::now_us;

struct Work {
  std::string name;
  double bytes = 0;
  double flops = 0;
  double peak_gflop_per_s = 0;
};

struct AttentionBatch {
  int32_t query_len, seq_len, num_reqs;
};

struct CacheType {
  const char* name;
  DType dtype;
};

struct AttentionWork {
  const kernel_cases::NamedAttention& shape;
  CacheType cache;
  AttentionBatch batch;
  std::string name() const {
    return fmt::format("attention {} {} {} tokens at {} x {}", shape.name, cache.name,
                       batch.query_len, batch.seq_len, batch.num_reqs);
  }
};

class Bench {
 public:
  Bench(HostStream& stream, const KernelBenchOptions& options,
        const std::function<void(const KernelBenchRow&)>& on_row)
      : stream_(stream), options_(options), on_row_(on_row), peaks_(probe_peaks(stream)) {
    add({"probe: read bandwidth", peaks_.read_gb_per_s * 1e3, 0, 0}, 1.0, 1.0);
    add({"probe: f32 multiply-add", 0, peaks_.f32_gflop_per_s * 1e3, peaks_.f32_gflop_per_s}, 1.0,
        1.0);
    add({"probe: bf16 multiply-add", 0, peaks_.bf16_gflop_per_s * 1e3, peaks_.bf16_gflop_per_s},
        1.0, 1.0);
    add({"probe: int8 multiply-add", 0, peaks_.int8_gop_per_s * 1e3, peaks_.int8_gop_per_s}, 1.0,
        1.0);
  }

  // Every model shape as a weight of this kind; `type` is its name in the rows.
  void linears(const std::string& type, const WeightSpec& kind);
  void attentions();
  void elementwise();
  void packing();
  std::vector<KernelBenchRow> take_rows() { return std::move(rows_); }

 private:
  bool wanted(const std::string& name) const {
    return name.find(options_.filter) != std::string::npos;
  }

  // Of products.
  const std::vector<int64_t>& rows() const {
    return options_.rows.empty() ? kernel_cases::model_rows() : options_.rows;
  }

  double peak_of(ComputeType compute) const {
    switch (compute) {
      case ComputeType::kInt8:
        return peaks_.int8_gop_per_s;
      case ComputeType::kBF16:
        return peaks_.bf16_gflop_per_s;
      case ComputeType::kF32:
        break;
    }
    return peaks_.f32_gflop_per_s;
  }

  void add(const Work& work, double us, double best_us) {
    KernelBenchRow row;
    row.name = work.name;
    row.us = us;
    row.best_us = best_us;
    row.gb_per_s = work.bytes / us * 1e-3;
    row.gflop_per_s = work.flops / us * 1e-3;
    const double compute_us =
        work.peak_gflop_per_s > 0 ? work.flops / work.peak_gflop_per_s * 1e-3 : 0.0;
    row.bound_us = std::max(work.bytes / peaks_.read_gb_per_s * 1e-3, compute_us);
    row.percent = 100.0 * row.bound_us / us;
    row.best_percent = 100.0 * row.bound_us / best_us;
    if (on_row_) on_row_(row);
    rows_.push_back(std::move(row));
  }

  // The median call; call(i) is given a running number to rotate its buffers by.
  template <typename Call>
  void measure(const Work& work, Call&& call) {
    if (!wanted(work.name)) return;
    call(0);
    std::vector<double> times;
    const clockid_t clock = clock_of(stream_);
    const double start = now_us(clock);
    for (int i = 1; i < 5 || now_us(clock) - start < options_.seconds_per_row * 1e6; ++i) {
      const double begin = now_us(clock);
      call(i);
      times.push_back(now_us(clock) - begin);
    }
    std::nth_element(times.begin(), times.begin() + static_cast<int64_t>(times.size() / 2),
                     times.end());
    add(work, times[times.size() / 2], *std::min_element(times.begin(), times.end()));
  }

  // `pool_memory`: bench::kKvPoolBytes.
  void attention(const AttentionWork& what, uint8_t* pool_memory);

  HostStream& stream_;
  const KernelBenchOptions& options_;
  const std::function<void(const KernelBenchRow&)>& on_row_;
  HardwarePeaks peaks_;
  std::vector<KernelBenchRow> rows_;
};

void Bench::linears(const std::string& type, const WeightSpec& kind) {
  const ComputeType compute = kind.compute;
  for (const auto& shape : kernel_cases::model_linears()) {
    WeightSpec spec = kind;
    spec.n = shape.n;
    spec.k = shape.k;
    const std::string prefix = fmt::format("linear {} {}", shape.name, type);
    if (!options_.filter.empty() && !wanted(prefix) &&
        options_.filter.find("m=") == std::string::npos)
      continue;
    const int64_t weight_bytes = cpu::round_up(packed_weight_bytes(spec), 4096);
    // Copies of a weight rotate over cold memory, as the layers of a model do.
    const int64_t copies =
        std::max<int64_t>(1, bench::cold_bytes(stream_.team().size()) / weight_bytes);
    const Mapping weights(weight_bytes * copies);
    fill(stream_, weights.data(), weight_bytes * copies);
    const bool head = shape.n > 100000;
    const Mapping gated(
        shape.is_gated ? *std::max_element(rows().begin(), rows().end()) * shape.n * 4 : 1);
    const LinearGate gate{.scratch = reinterpret_cast<float*>(gated.data())};
    for (const int64_t m : rows()) {
      if (head && m > 32) continue;
      const Mapping x(m * shape.k * 4), y(m * shape.n * 4),
          workspace(linear_workspace_bytes(stream_, m, spec));
      fill(stream_, x.data(), m * shape.k * 4);
      const Work work{
          fmt::format("{} m={}", prefix, m), static_cast<double>(packed_weight_bytes(spec)),
          2.0 * static_cast<double>(m) * static_cast<double>(shape.n * shape.k), peak_of(compute)};
      measure(work, [&](int i) {
        const PackedWeight weight{spec, weights.data() + i % copies * weight_bytes};
        linear(stream_, {.x = reinterpret_cast<const float*>(x.data()),
                         .x_stride = shape.k,
                         .weight = &weight,
                         .y = reinterpret_cast<float*>(y.data()),
                         .y_stride = shape.n,
                         .num_rows = m,
                         .workspace = workspace.data(),
                         .gate = shape.is_gated ? &gate : nullptr});
      });
    }
  }
}

void Bench::attention(const AttentionWork& what, uint8_t* pool_memory) {
  constexpr int32_t kBlockSize = 16;
  const kernel_cases::NamedAttention& shape = what.shape;
  const int32_t query_len = what.batch.query_len;
  const int32_t seq_len = what.batch.seq_len;
  const int32_t num_reqs = what.batch.num_reqs;
  const bench::KvPool pool = bench::make_kv_pool(shape, what.cache.dtype, kBlockSize, pool_memory);
  const int64_t blocks = (seq_len + kBlockSize - 1) / kBlockSize;
  // Sequences rotate over the pool, layer after layer: in an engine weights pass in between.
  const int64_t places = std::max<int64_t>(1, pool.num_blocks / (blocks * num_reqs));
  const std::vector<int32_t> table = pool.block_table(places * blocks * num_reqs);
  std::vector<int32_t> starts(static_cast<size_t>(num_reqs) + 1),
      seqs(static_cast<size_t>(num_reqs), seq_len);
  for (int32_t r = 0; r <= num_reqs; ++r) starts[static_cast<size_t>(r)] = r * query_len;
  const int64_t row = int64_t{shape.num_heads} * shape.head_dim;
  const int64_t tokens = int64_t{num_reqs} * query_len;
  std::vector<float> query(static_cast<size_t>(tokens * row), 0.01f), out(query.size());
  const Mapping workspace(paged_attention_workspace_bytes(stream_, tokens, num_reqs, seq_len,
                                                          shape.num_heads, shape.head_dim));
  const double first_pos = seq_len - query_len;
  const double pairs = static_cast<double>(tokens) * (first_pos + 0.5 * (query_len + 1));
  const Work work{what.name(), static_cast<double>(blocks * num_reqs * pool.layer_bytes),
                  2.0 * pairs * shape.num_heads * (shape.head_dim + shape.value_dim()),
                  peaks_.bf16_gflop_per_s};
  measure(work, [&](int i) {
    paged_attention(stream_,
                    {.query = query.data(),
                     .query_stride = row,
                     .kv = pool.layer(i),
                     .query_start_loc = starts.data(),
                     .seq_lens = seqs.data(),
                     .block_table = table.data() + i / pool.num_layers % places * blocks * num_reqs,
                     .max_blocks = blocks,
                     .num_reqs = num_reqs,
                     .num_heads = shape.num_heads,
                     .scale = 0.125f,
                     .out = out.data(),
                     .workspace = workspace.data()});
  });
}

void Bench::attentions() {
  // Decode, then whole prompts and a chunk of a long one.
  std::vector<AttentionBatch> batches;
  for (const int32_t context : {512, 4096, 32768}) {
    for (const int32_t num_reqs : {1, 8, 32}) batches.push_back({1, context, num_reqs});
  }
  batches.push_back({1, 8192, 1});
  batches.insert(batches.end(), {{512, 512, 1}, {2048, 2048, 1}, {512, 8192, 1}});
  constexpr CacheType kCaches[] = {
      {"bf16", DType::kBF16}, {"int8", DType::kI8}, {"e4m3", DType::kF8E4M3}};
  std::optional<Mapping> pool;
  for (const auto& shape : kernel_cases::model_attentions()) {
    for (const CacheType& cache : kCaches) {
      for (const AttentionBatch& batch : batches) {
        const AttentionWork work{shape, cache, batch};
        if (!wanted(work.name())) continue;
        if (!pool) {
          pool.emplace(bench::kKvPoolBytes);
          fill(stream_, pool->data(), bench::kKvPoolBytes);
        }
        attention(work, pool->data());
      }
    }
  }
}

void Bench::elementwise() {
  for (const int64_t tokens : {1, 512}) {
    constexpr int64_t kHidden = 2048, kFfn = 8192;
    std::vector<float> x(static_cast<size_t>(tokens * 2 * kFfn), 0.5f), out(x.size()),
        weight(kHidden, 1.0f);
    const auto n = static_cast<double>(tokens);
    measure({fmt::format("rms_norm 2048 m={}", tokens), n * kHidden * 8, 0, 0}, [&](int) {
      rms_norm(stream_, {.x = x.data(),
                         .weight = weight.data(),
                         .out = out.data(),
                         .num_tokens = tokens,
                         .hidden_size = kHidden});
    });
    measure({fmt::format("silu_mul 8192 m={}", tokens), n * kFfn * 12, 0, 0}, [&](int) {
      activation(stream_,
                 {.x = x.data(), .out = out.data(), .num_tokens = tokens, .ffn_size = kFfn});
    });
  }
  measure({"empty region (barrier)", 0, 0, 0}, [&](int) { stream_.team().run([](int) {}); });
}

void Bench::packing() {
  for (const auto& [from, to] : {std::pair{DType::kBF16, DType::kBF16},
                                 {DType::kF32, DType::kF32},
                                 {DType::kF32, DType::kBF16},
                                 {DType::kF16, DType::kF16}}) {
    constexpr int64_t kN = 16384, kK = 2048;
    const WeightSpec spec{kN, kK, to, ComputeType::kF32};
    const Work work{fmt::format("pack {} to {} 16384x2048", to_string(from), to_string(to)),
                    static_cast<double>(kN * kK * (size_bytes(from) + size_bytes(to))), 0, 0};
    if (!wanted(work.name)) continue;
    const Mapping source(kN * kK * size_bytes(from)), packed(packed_weight_bytes(spec));
    fill(stream_, source.data(), kN * kK * size_bytes(from));
    measure(work, [&, from = from](int) {
      pack_weight_rows(stream_, {spec, packed.data()},
                       {.rows = source.data(), .dtype = from, .num_rows = kN});
    });
  }
}

}  // namespace

std::vector<KernelBenchRow> run_kernel_bench(
    HostStream& stream, const KernelBenchOptions& options,
    const std::function<void(const KernelBenchRow&)>& on_row) {
  Bench bench(stream, options, on_row);
  for (const auto& [dtype, compute] : {std::pair{DType::kBF16, ComputeType::kBF16},
                                       {DType::kBF16, ComputeType::kF32},
                                       {DType::kI8, ComputeType::kInt8}}) {
    bench.linears(kernel_cases::name_of(dtype, compute), {.dtype = dtype, .compute = compute});
  }
  for (const auto& format : kernel_cases::quant_formats()) {
    if (!format.in_benchmark) continue;
    bench.linears(format.name, {.compute = ComputeType::kBF16, .quant = format.spec});
  }
  bench.attentions();
  bench.elementwise();
  bench.packing();
  return bench.take_rows();
}

}  // namespace quire
