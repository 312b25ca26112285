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
#include "kernels/bench/bench_rows.h"
#include "kernels/bench/cases.h"
#include "kernels/bench/model_bench.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/testing/quant_cases.h"

namespace quire {
namespace {

using bench::BenchRows;
using bench::BenchWork;
using bench::fill;
using bench::Mapping;

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
  explicit Bench(BenchRows& rows) : rows_(rows), stream_(rows.stream()) {}

  // Measures weights of this kind in the shapes of every model; `type` is the kind's name in the
  // rows.
  void linears(const std::string& type, const WeightSpec& kind);
  void attentions();
  void elementwise();
  void packing();

 private:
  // `pool_memory` has bench::kKvPoolBytes.
  void attention(const AttentionWork& what, uint8_t* pool_memory);

  BenchRows& rows_;
  HostStream& stream_;
};

void Bench::linears(const std::string& type, const WeightSpec& kind) {
  const ComputeType compute = kind.compute;
  const std::vector<int64_t>& counts = rows_.row_counts(kernel_cases::model_rows());
  for (const auto& shape : kernel_cases::model_linears()) {
    WeightSpec spec = kind;
    spec.n = shape.n;
    spec.k = shape.k;
    const std::string prefix = fmt::format("linear {} {}", shape.name, type);
    if (!rows_.may_be_wanted(prefix)) continue;
    const int64_t weight_bytes = cpu::round_up(packed_weight_bytes(spec), 4096);
    // Calls rotate over copies of the weight, so that each finds it outside of the caches, as
    // layers of a model do.
    const int64_t copies =
        std::max<int64_t>(1, bench::cold_bytes(stream_.team().size()) / weight_bytes);
    const Mapping weights(weight_bytes * copies);
    fill(stream_, weights.data(), weight_bytes * copies);
    const bool head = shape.n > 100000;
    const Mapping gated(
        shape.is_gated ? *std::max_element(counts.begin(), counts.end()) * shape.n * 4 : 1);
    const LinearGate gate{.scratch = reinterpret_cast<float*>(gated.data())};
    for (const int64_t m : counts) {
      if (head && m > 32) continue;
      const Mapping x(m * shape.k * 4), y(m * shape.n * 4),
          workspace(linear_workspace_bytes(stream_, m, spec));
      fill(stream_, x.data(), m * shape.k * 4);
      const BenchWork work{fmt::format("{} m={}", prefix, m),
                           static_cast<double>(packed_weight_bytes(spec)),
                           2.0 * static_cast<double>(m) * static_cast<double>(shape.n * shape.k),
                           rows_.peak_of(compute)};
      rows_.measure(work, [&](int i) {
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
  // Calls rotate over sequences and layers of the pool, since in an engine weights pass through the
  // caches in between.
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
  const BenchWork work{what.name(), static_cast<double>(blocks * num_reqs * pool.layer_bytes),
                       2.0 * pairs * shape.num_heads * (shape.head_dim + shape.value_dim()),
                       rows_.peaks().bf16_gflop_per_s};
  rows_.measure(work, [&](int i) {
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
  // Decode batches, then whole prompts and a chunk of a long one.
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
        if (!rows_.wanted(work.name())) continue;
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
    rows_.measure({fmt::format("rms_norm 2048 m={}", tokens), n * kHidden * 8, 0, 0}, [&](int) {
      rms_norm(stream_, {.x = x.data(),
                         .weight = weight.data(),
                         .out = out.data(),
                         .num_tokens = tokens,
                         .hidden_size = kHidden});
    });
    rows_.measure({fmt::format("silu_mul 8192 m={}", tokens), n * kFfn * 12, 0, 0}, [&](int) {
      activation(stream_,
                 {.x = x.data(), .out = out.data(), .num_tokens = tokens, .ffn_size = kFfn});
    });
  }
  rows_.measure({"empty region (barrier)", 0, 0, 0}, [&](int) { stream_.team().run([](int) {}); });
}

void Bench::packing() {
  for (const auto& [from, to] : {std::pair{DType::kBF16, DType::kBF16},
                                 {DType::kF32, DType::kF32},
                                 {DType::kF32, DType::kBF16},
                                 {DType::kF16, DType::kF16}}) {
    constexpr int64_t kN = 16384, kK = 2048;
    const WeightSpec spec{kN, kK, to, ComputeType::kF32};
    const BenchWork work{fmt::format("pack {} to {} 16384x2048", to_string(from), to_string(to)),
                         static_cast<double>(kN * kK * (size_bytes(from) + size_bytes(to))), 0, 0};
    if (!rows_.wanted(work.name)) continue;
    const Mapping source(kN * kK * size_bytes(from)), packed(packed_weight_bytes(spec));
    fill(stream_, source.data(), kN * kK * size_bytes(from));
    rows_.measure(work, [&, from = from](int) {
      pack_weight_rows(stream_, {spec, packed.data()},
                       {.rows = source.data(), .dtype = from, .num_rows = kN});
    });
  }
}

}  // namespace

std::vector<KernelBenchRow> run_kernel_bench(
    HostStream& stream, const KernelBenchOptions& options,
    const std::function<void(const KernelBenchRow&)>& on_row) {
  bench::BenchRows rows(stream, options, on_row);
  Bench bench(rows);
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
  bench::bench_experts(rows);
  bench::bench_states(rows);
  return rows.take();
}

}  // namespace quire
