#include "kernels/gpu_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "kernels/api/activation.h"
#include "kernels/api/attention.h"
#include "kernels/api/embedding.h"
#include "kernels/api/experts.h"
#include "kernels/api/fp8_support.h"
#include "kernels/api/linear.h"
#include "kernels/api/norm.h"
#include "kernels/api/router.h"
#include "kernels/api/sampling.h"
#include "kernels/bench/cases.h"
#include "kernels/cuda/gpu_bench_table.h"
#include "kernels/cuda/linear/fp8_linear.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/quant/quant_weight.h"

namespace quire {
namespace {

using cuda::GpuBenchTable;
using kernel_cases::NamedAttention;
using kernel_cases::NamedLinear;

constexpr int64_t kHidden = 4096;  // for the element-wise rows: that of an 8B model
constexpr int64_t kFfn = 14336;
constexpr int64_t kVocab = 151936;
constexpr int32_t kBlockSize = 16;
constexpr int64_t kFreeBytes = int64_t{12} << 30;  // half of it holds the largest rows

// Shapes of models for GPUs, beside those of kernel_cases.
const std::vector<NamedLinear>& gpu_linears() {
  static const std::vector<NamedLinear> shapes = {{"llama-8b qkv", 6144, 4096},
                                                  {"llama-8b o", 4096, 4096},
                                                  {"llama-8b gate_up", 28672, 4096},
                                                  {"llama-8b down", 4096, 14336}};
  return shapes;
}

struct LinearKind {
  const char* name;
  QuantSpec quant;
  DType products = DType::kBF16;  // for kF8E4M3 and kI8, activations are of this type too
};

// Returns the bytes of a weight in the GPU's packed form.
int64_t packed_bytes(const WeightSpec& spec) {
  return spec.quant.is_quantized() ? cuda::quant_weight_layout(spec).num_bytes
                                   : spec.n * spec.k * 2;
}

LinearKind int4_groups() {
  return {"int4 g128", {.bits = 4, .offset = 8, .group_size = 128, .scale_type = ScaleType::kF16}};
}
LinearKind fp8_blocks() {
  return {"fp8 128x128", {.bits = 8, .codebook = Codebook::kE4M3, .group_size = 128}};
}

void linear_row(GpuBenchTable& table, const NamedLinear& shape, const LinearKind& kind, int64_t m) {
  WeightSpec spec{.n = shape.n, .k = shape.k, .compute = ComputeType::kBF16, .quant = kind.quant};
  Stream& stream = table.device().stream();
  const bool of_bytes = kind.products != DType::kBF16;
  if (of_bytes) spec.dtype = kind.products;
  if (kind.products == DType::kF8E4M3 && !supports_fp8_products(stream, spec)) return;
  const int64_t weight_bytes =
      of_bytes ? cuda::fp8_weight_layout(spec).num_bytes : packed_bytes(spec);
  std::byte* workspace = nullptr;
  const cuda::BenchWork work{
      fmt::format("linear {} {} m={}", shape.name, kind.name, m),
      static_cast<double>(weight_bytes + 2 * m * (shape.n + shape.k)),
      2.0 * static_cast<double>(m) * static_cast<double>(shape.n) * static_cast<double>(shape.k)};
  if (!table.wanted(work.name)) return;
  const int64_t workspace_bytes = linear_workspace_bytes(stream, m, spec);
  if (workspace_bytes > 0) workspace = table.result(workspace_bytes);
  // Codes and scales are arbitrary bytes, since the time does not depend on them.
  table.measure(work, [&] {
    const PackedWeight weight{spec, table.next(weight_bytes)};
    linear(stream, {.x = ConstActivations(table.next(m * shape.k * 2), DType::kBF16),
                    .x_stride = shape.k,
                    .weight = &weight,
                    .y = Activations(table.result(m * shape.n * 2), DType::kBF16),
                    .y_stride = shape.n,
                    .num_rows = m,
                    .workspace = workspace});
  });
}

void linears(GpuBenchTable& table) {
  const LinearKind bf16{"bf16", {}};
  for (const auto* shapes : {&gpu_linears(), &kernel_cases::model_linears()})
    for (const NamedLinear& shape : *shapes)
      for (const int64_t m : {1, 8, 16, 64, 256, 1024, 8192})
        if (!shape.is_gated && (shape.n < 100000 || m <= 256)) linear_row(table, shape, bf16, m);
  const LinearKind quantized[] = {
      int4_groups(),
      fp8_blocks(),
      {"fp8 x fp8",
       {.bits = 8, .codebook = Codebook::kE4M3, .group_size = int64_t{1} << 20},
       DType::kF8E4M3},
      {"fp8 128x128 x fp8",
       {.bits = 8, .codebook = Codebook::kE4M3, .group_size = cuda::kFp8GroupInputs},
       DType::kF8E4M3},
      {"int8", {.bits = 8, .offset = 128, .group_size = int64_t{1} << 20}},
      {"int8 x int8", {.bits = 8, .offset = 128, .group_size = int64_t{1} << 20}, DType::kI8}};
  for (const LinearKind& kind : quantized)
    for (const NamedLinear& shape : gpu_linears())
      for (const int64_t m : {1, 8, 16, 32, 48, 64, 128, 256, 1024, 8192})
        if (kind.products != DType::kBF16 || m <= 1024) linear_row(table, shape, kind, m);
}

struct AttentionRow {
  const NamedAttention& shape;
  DType cache_dtype;
  std::vector<int32_t> context;  // by request
  int32_t query_len;
  std::string lengths;  // for the row's name
  // So many first positions are in the same blocks for all requests, and may be read once for
  // several.
  int32_t shared_prefix = 0;
  bool packs = true;
};

// Fills the block tables of requests of these lengths, which have their first num_shared blocks in
// common. Returns how many blocks the cache has. Block 0 is not used.
int64_t list_blocks(const std::vector<int32_t>& lens, int64_t max_blocks, int64_t num_shared,
                    std::vector<int32_t>& tables) {
  int64_t num_blocks = 1;
  for (const int32_t length : lens) {
    const int64_t first_own = num_blocks > 1 ? num_shared : 0;
    for (int64_t b = 0; b < max_blocks; ++b) {
      const int64_t at = std::min<int64_t>(b, (length - 1) / kBlockSize);
      tables.push_back(static_cast<int32_t>(at < first_own ? 1 + at : num_blocks + at - first_own));
    }
    num_blocks += (length + kBlockSize - 1) / kBlockSize - first_own;
  }
  return num_blocks;
}

void attention_row(GpuBenchTable& table, const AttentionRow& row) {
  const NamedAttention& shape = row.shape;
  cuda::BenchWork work{
      fmt::format("attention {} {} {}", shape.name, to_string(row.cache_dtype), row.lengths)};
  if (!table.wanted(work.name)) return;
  std::vector<int32_t> start{0}, lens, blocks;
  int64_t max_blocks = 0;
  const int32_t value_dim = shape.value_dim();
  for (const int32_t context : row.context) {
    start.push_back(start.back() + row.query_len);
    lens.push_back(context + row.query_len);
    max_blocks = std::max<int64_t>(max_blocks, (lens.back() + kBlockSize - 1) / kBlockSize);
    work.flops += 2.0 * shape.num_heads * (shape.head_dim + value_dim) * row.query_len *
                  (context + row.query_len / 2.0);
  }
  const int64_t num_blocks = list_blocks(lens, max_blocks, row.shared_prefix / kBlockSize, blocks);
  const int64_t block_elements = int64_t{shape.num_kv_heads} * kBlockSize * shape.head_dim;
  const int64_t cache_bytes = num_blocks * block_elements * size_bytes(row.cache_dtype);
  const bool is_latent = shape.latent_dim > 0;
  const int64_t tokens = start.back();
  const int64_t query_row = int64_t{shape.num_heads + 2 * shape.num_kv_heads} * shape.head_dim;
  const int64_t out_row = int64_t{shape.num_heads} * value_dim;
  work.bytes = static_cast<double>((is_latent ? 1 : 2) * cache_bytes +
                                   tokens * shape.num_heads * (shape.head_dim + value_dim) * 2);
  Stream& stream = table.device().stream();
  PagedAttentionParams p;
  p.query_stride = query_row;
  p.kv = {.dtype = row.cache_dtype,
          .block_stride = block_elements,
          .block_size = kBlockSize,
          .num_kv_heads = shape.num_kv_heads,
          .head_dim = shape.head_dim,
          .order = KvOrder::kTokenMajor,
          .latent_dim = shape.latent_dim};
  p.query_start_loc = table.upload(start);
  p.seq_lens = table.upload(lens);
  p.block_table = table.upload(blocks);
  p.max_blocks = max_blocks;
  p.num_reqs = static_cast<int32_t>(lens.size());
  p.num_heads = shape.num_heads;
  p.scale = 0.088f;
  p.max_query_len = row.query_len;
  p.workspace_bytes = paged_attention_workspace_bytes(
      stream, tokens, p.num_reqs, max_blocks * kBlockSize, shape.num_heads, shape.head_dim);
  p.batch_cut = table.kept(paged_attention_cut_bytes(stream, p.num_reqs));
  p.cut_has_one_table = row.packs;
  bool is_cut = false;  // once, as a step does it for all its layers
  table.measure(work, [&] {
    PagedAttentionParams call = p;
    call.batch_is_cut = std::exchange(is_cut, true);
    call.query = ConstActivations(table.next(tokens * query_row * 2), DType::kBF16);
    call.kv.key = table.next(cache_bytes);
    if (!is_latent) call.kv.value = table.next(cache_bytes);
    call.out = Activations(table.result(tokens * out_row * 2), DType::kBF16);
    call.workspace = table.result(p.workspace_bytes);
    paged_attention(stream, call);
  });
}

void attentions(GpuBenchTable& table) {
  std::vector<int32_t> mixed(32);
  for (size_t i = 0; i < mixed.size(); ++i) mixed[i] = static_cast<int32_t>(100 + i * i * 16);
  for (const NamedAttention& shape : kernel_cases::model_attentions()) {
    if (shape.latent_dim > 0) continue;
    for (const DType dtype : {DType::kBF16, DType::kF8E4M3}) {
      for (const int32_t reqs : {1, 8, 32, 128}) {
        attention_row(table, {shape, dtype, std::vector<int32_t>(static_cast<size_t>(reqs), 4096),
                              1, fmt::format("1 token at 4096 x {}", reqs)});
      }
      for (const int32_t context : {512, 32768})
        attention_row(table,
                      {shape, dtype, {context}, 1, fmt::format("1 token at {} x 1", context)});
      attention_row(table, {shape, dtype, mixed, 1, "1 token at 100 to 15476, 32 requests"});
      for (const int32_t length : {1024, 8192})
        attention_row(table, {shape, dtype, {0}, length, fmt::format("{} tokens at 0", length)});
    }
  }
  for (const NamedAttention& shape : kernel_cases::model_attentions()) {
    if (std::string_view(shape.name) != "llama-8b") continue;
    for (const int32_t reqs : {64, 256}) {
      for (const bool packs : {true, false}) {
        attention_row(
            table, {shape, DType::kBF16, std::vector<int32_t>(static_cast<size_t>(reqs), 4352), 1,
                    fmt::format("1 token at 4096 shared + 256 x {}, {}", reqs,
                                packs ? "in packs" : "each alone"),
                    4096, packs});
      }
    }
  }
  // Heads and latents that the wide kernel computes.
  const NamedAttention wide{"512 dims", 8, 1, 512, 1};
  attention_row(table, {wide, DType::kBF16, {4096}, 1, "1 token at 4096 x 1"});
  attention_row(table, {wide, DType::kBF16, mixed, 1, "1 token at 100 to 15476, 32 requests"});
  attention_row(table, {wide, DType::kBF16, {0}, 1024, "1024 tokens at 0"});
  for (const NamedAttention& shape : kernel_cases::model_attentions()) {
    if (shape.latent_dim == 0) continue;
    for (const int32_t reqs : {1, 32}) {
      attention_row(table,
                    {shape, DType::kBF16, std::vector<int32_t>(static_cast<size_t>(reqs), 4096), 1,
                     fmt::format("1 token at 4096 x {}", reqs)});
    }
    attention_row(table, {shape, DType::kBF16, {0}, 1024, "1024 tokens at 0"});
  }
}

struct ExpertsShape {
  const char* name;
  int32_t num_experts;
  int32_t per_token;
  int64_t hidden_size;
  int64_t inside_size;
};

// Returns random experts for each token, which are different within a token.
std::vector<int32_t> chosen_experts(const ExpertsShape& shape, int64_t tokens) {
  std::vector<int32_t> ids;
  uint32_t state = 1;
  for (int64_t t = 0; t < tokens; ++t) {
    const size_t first = ids.size();
    while (ids.size() < first + static_cast<size_t>(shape.per_token)) {
      state = state * 1664525u + 1013904223u;
      const auto id = static_cast<int32_t>((state >> 8) % static_cast<uint32_t>(shape.num_experts));
      if (std::find(ids.begin() + static_cast<std::ptrdiff_t>(first), ids.end(), id) == ids.end())
        ids.push_back(id);
    }
  }
  return ids;
}

// Counts the bytes of the experts that at least one token goes to.
void experts_row(GpuBenchTable& table, const ExpertsShape& shape, const LinearKind& kind,
                 int64_t tokens) {
  const int64_t matrix = shape.hidden_size * shape.inside_size;
  const auto ids = chosen_experts(shape, tokens);
  const auto touched = static_cast<int64_t>(std::set<int32_t>(ids.begin(), ids.end()).size());
  const WeightSpec inside{.n = shape.inside_size, .k = shape.hidden_size, .quant = kind.quant};
  const WeightSpec outputs{.n = shape.hidden_size, .k = shape.inside_size, .quant = kind.quant};
  const int64_t expert_bytes = 2 * packed_bytes(inside) + packed_bytes(outputs);
  const cuda::BenchWork work{
      fmt::format("experts {} {} m={}", shape.name, kind.name, tokens),
      static_cast<double>(touched * expert_bytes + tokens * shape.hidden_size * 6),
      6.0 * static_cast<double>(tokens * shape.per_token) * static_cast<double>(matrix)};
  if (!table.wanted(work.name)) return;
  Stream& stream = table.device().stream();
  const int32_t* on_device = table.upload(ids);
  const float* weights = table.upload(std::vector<float>(ids.size(), 0.125f));
  std::vector<PackedWeight> packed(static_cast<size_t>(3 * shape.num_experts));
  std::vector<ExpertWeights> experts(static_cast<size_t>(shape.num_experts));
  for (size_t e = 0; e < experts.size(); ++e) {
    for (size_t i = 0; i < 3; ++i) packed[3 * e + i].spec = i < 2 ? inside : outputs;
    experts[e] = {.gate = &packed[3 * e], .up = &packed[3 * e + 1], .down = &packed[3 * e + 2]};
  }
  const int64_t workspace_bytes = experts_workspace_bytes(stream, tokens, experts, shape.per_token);
  table.measure(work, [&] {
    std::byte* memory = table.next(shape.num_experts * expert_bytes);
    for (PackedWeight& weight : packed) {
      weight.data = memory;
      memory += packed_bytes(weight.spec);
    }
    run_experts(stream,
                {.x = ConstActivations(table.next(tokens * shape.hidden_size * 2), DType::kBF16),
                 .experts = experts,
                 .expert_ids = on_device,
                 .expert_weights = weights,
                 .experts_per_token = shape.per_token,
                 .out = Activations(table.result(tokens * shape.hidden_size * 4), DType::kF32),
                 .num_tokens = tokens,
                 .workspace = table.result(workspace_bytes)});
  });
}

void routed_experts(GpuBenchTable& table) {
  Stream& stream = table.device().stream();
  const ExpertsShape qwen3{"qwen3-30b-a3b", 128, 8, 2048, 768};
  const ExpertsShape mixtral{"mixtral-8x7b", 8, 2, 4096, 14336};
  const ExpertsShape gpt_oss{"gpt-oss-20b", 32, 4, 2880, 2880};
  const LinearKind bf16{"bf16", {}};
  const LinearKind mxfp4{
      "mxfp4",
      {.bits = 4, .codebook = Codebook::kE2M1, .group_size = 32, .scale_type = ScaleType::kE8M0}};
  for (const int64_t tokens : {1, 8, 32, 64, 256, 2048}) {
    for (const ExpertsShape& shape : {qwen3, mixtral}) experts_row(table, shape, bf16, tokens);
    for (const LinearKind& kind : {int4_groups(), fp8_blocks()})
      experts_row(table, qwen3, kind, tokens);
    experts_row(table, gpt_oss, mxfp4, tokens);
  }
  const RouterSpec router{
      .num_experts = 128, .experts_per_token = 8, .weight = RouterWeight::kNormalized};
  for (const int64_t tokens : {1, 256, 2048}) {
    table.measure({fmt::format("route_tokens 8 of 128 m={}", tokens),
                   static_cast<double>(tokens) * (128 + 16) * 4, 0},
                  [&] {
                    route_tokens(
                        stream,
                        {.logits = reinterpret_cast<float*>(table.next(tokens * 128 * 4)),
                         .router = router,
                         .expert_ids = reinterpret_cast<int32_t*>(table.result(tokens * 32)),
                         .expert_weights = reinterpret_cast<float*>(table.result(tokens * 32)),
                         .num_tokens = tokens});
                  });
  }
}

void elementwise(GpuBenchTable& table) {
  Stream& stream = table.device().stream();
  for (const int64_t tokens : {1, 256, 8192}) {
    const auto values = static_cast<double>(tokens * kHidden);
    const auto* weight = reinterpret_cast<const float*>(table.next(kHidden * 4));
    table.measure({fmt::format("rms_norm {} m={}", kHidden, tokens), values * 6, 0}, [&] {
      rms_norm(stream, {.x = ConstActivations(table.next(tokens * kHidden * 4), DType::kF32),
                        .weight = weight,
                        .out = Activations(table.result(tokens * kHidden * 2), DType::kBF16),
                        .num_tokens = tokens,
                        .hidden_size = kHidden});
    });
    table.measure(
        {fmt::format("silu_mul {} m={}", kFfn, tokens), static_cast<double>(tokens * kFfn) * 6, 0},
        [&] {
          activation(stream, {.x = ConstActivations(table.next(tokens * kFfn * 4), DType::kBF16),
                              .out = Activations(table.result(tokens * kFfn * 2), DType::kBF16),
                              .num_tokens = tokens,
                              .ffn_size = kFfn});
        });
    std::vector<TokenId> ids(static_cast<size_t>(tokens));
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<TokenId>(i * 7919 % kVocab);
    const TokenId* on_device = table.upload(ids);
    table.measure({fmt::format("embedding {} m={}", kHidden, tokens), values * 6, 0}, [&] {
      embedding(stream, {.token_ids = on_device,
                         .table = table.next(kVocab * kHidden * 2),
                         .table_dtype = DType::kBF16,
                         .out = Activations(table.result(tokens * kHidden * 4), DType::kF32),
                         .num_tokens = tokens,
                         .hidden_size = kHidden});
    });
  }
}

// The cache write of a layer of llama-8b, which includes the rotary embedding of queries and keys.
void cache_writes(GpuBenchTable& table) {
  Stream& stream = table.device().stream();
  constexpr int32_t kHeads = 32, kKvHeads = 8, kDim = 128;
  constexpr int64_t kRow = (kHeads + 2 * kKvHeads) * kDim;
  for (const int64_t tokens : {1, 256, 8192}) {
    std::vector<int64_t> slots(static_cast<size_t>(tokens));
    for (size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<int64_t>(i);
    const int64_t* slot_mapping = table.upload(slots);
    const int64_t cache_bytes = (tokens + kBlockSize) * kKvHeads * kDim * 2;
    table.measure(
        {fmt::format("qkv_to_cache llama-8b m={}", tokens),
         static_cast<double>(tokens * (kRow * 2 + (kHeads + 2 * kKvHeads) * kDim * 2 + kDim * 4)),
         0},
        [&] {
          qkv_to_cache(stream,
                       {.qkv = Activations(table.result(tokens * kRow * 2), DType::kBF16),
                        .qkv_stride = kRow,
                        .rotary_dim = kDim,
                        .cos = reinterpret_cast<const float*>(table.next(tokens * kDim * 2)),
                        .sin = reinterpret_cast<const float*>(table.next(tokens * kDim * 2)),
                        .slot_mapping = slot_mapping,
                        .kv = {.key = table.result(cache_bytes),
                               .value = table.result(cache_bytes),
                               .dtype = DType::kBF16,
                               .block_stride = int64_t{kKvHeads} * kBlockSize * kDim,
                               .block_size = kBlockSize,
                               .num_kv_heads = kKvHeads,
                               .head_dim = kDim,
                               .order = KvOrder::kTokenMajor},
                        .num_tokens = tokens,
                        .num_heads = kHeads});
        });
  }
}

// Logits are uniform in (-1, 1): at temperature 0.1 about as sharp as those of a model.
void samplers(GpuBenchTable& table) {
  const struct {
    const char* name;
    SampleRow row;
  } kinds[] = {{"greedy", {}},
               {"temperature", {.inverse_temperature = 10.0f}},
               {"top_p 0.9", {.inverse_temperature = 10.0f, .top_p = 0.9f}},
               {"top_k 50", {.inverse_temperature = 10.0f, .top_k = 50}}};
  for (const int64_t batch : {1, 32, 256}) {
    for (const auto& kind : kinds) {
      std::vector<SampleRow> rows(static_cast<size_t>(batch), kind.row);
      for (size_t i = 0; i < rows.size(); ++i) rows[i].seed = i;
      const SampleRow* on_device = table.upload(rows);
      // Counts one read of every logit, which is the minimum.
      table.measure({fmt::format("sample {} {} m={}", kind.name, kVocab, batch),
                     static_cast<double>(batch * kVocab * 4), 0},
                    [&] {
                      sample_rows(
                          table.device().stream(),
                          {.logits = reinterpret_cast<float*>(table.next(batch * kVocab * 4)),
                           .rows = on_device,
                           .num_rows = batch,
                           .vocab_size = kVocab,
                           .out = reinterpret_cast<SampledToken*>(
                               table.result(batch * int64_t{sizeof(SampledToken)}))});
                    });
    }
  }
}

}  // namespace

Result<std::vector<KernelBenchRow>> run_gpu_kernel_bench(
    Device& device, const GpuBenchOptions& options,
    const std::function<void(const KernelBenchRow&)>& on_row) {
  GpuStream& stream = device.stream();
  stream.set_deterministic(options.deterministic);
  stream.set_warpgroup_products(stream.info().compute_capability == 90);
  if (options.filter.empty() && device.info().free_memory_bytes < kFreeBytes) {
    return resource_exhausted("bench: expected {} free bytes on the device, got {}", kFreeBytes,
                              device.info().free_memory_bytes);
  }
  QUIRE_ASSIGN_OR_RETURN(GpuBenchTable table, GpuBenchTable::create(device, options, on_row));
  linears(table);
  attentions(table);
  routed_experts(table);
  state_rows(table);
  elementwise(table);
  cache_writes(table);
  samplers(table);
  return table.take_rows();
}

Result<GpuLimits> probe_gpu_limits(Device& device, const GpuBenchOptions& options) {
  const std::function<void(const KernelBenchRow&)> tell_nobody;
  QUIRE_ASSIGN_OR_RETURN(GpuBenchTable table, GpuBenchTable::create(device, options, tell_nobody));
  return table.limits();
}

}  // namespace quire
