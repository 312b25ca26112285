// run_experts(): pairs are sorted by expert, the experts' insides are multiplied tile by tile, then
// their outputs, and each token's are summed in the order of its choices. The host knows the number
// of tokens alone, so a step's launches are the same whatever the router chose, and can be captured.
#include <cstddef>

#include "kernels/cuda/experts/expert_products.h"
#include "kernels/cuda/experts/sort_pairs.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/types.h"

namespace quire::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kColumns = 8;  // of a thread

template <typename T>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, 1)
    sum_experts_kernel(const float* outputs, const float* weights, T* out, int64_t out_stride,
                       int per_token, int64_t hidden_size, int64_t num_tokens, bool accumulate) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  const int64_t per_row = hidden_size / kColumns;
  const int64_t step = int64_t{ptx::num_blocks()} * kThreads;
  for (int64_t i = int64_t{ptx::block_index()} * kThreads + ptx::thread_index();
       i < num_tokens * per_row; i += step) {
    const int64_t token = i / per_row;
    const int64_t column = i % per_row * kColumns;
    T* const to = out + token * out_stride + column;
    float sums[kColumns] = {};
    if (accumulate) load<kColumns>(to, sums);
    for (int64_t pair = token * per_token; pair < (token + 1) * per_token; ++pair) {
      float row[kColumns];
      load<kColumns>(outputs + pair * hidden_size + column, row);
      const float weight = weights[pair];
#pragma unroll
      for (int j = 0; j < kColumns; ++j) sums[j] = ptx::multiply_add(weight, row[j], sums[j]);
    }
    store<kColumns>(to, sums);
  }
}

// The same matrix of all experts, which lie at one distance from each other.
template <typename T, typename Get>
Stacked<T> stacked(std::span<const ExpertWeights> experts, const Get& get) {
  Stacked<T> all{get(experts.front())};
  if (all.first == nullptr || experts.size() == 1) return all;
  all.stride = get(experts[1]) - all.first;
  const T* expected = all.first;
  for (const ExpertWeights& expert : experts) {
    QUIRE_CHECK(get(expert) == expected, "[run_experts] experts at different distances");
    expected += all.stride;
  }
  return all;
}

Stacked<bfloat16> stacked_weights(std::span<const ExpertWeights> experts,
                                  const PackedWeight* ExpertWeights::*part) {
  return stacked<bfloat16>(experts, [&](const ExpertWeights& expert) -> const bfloat16* {
    const PackedWeight* weight = expert.*part;
    if (weight == nullptr) return nullptr;
    const WeightSpec& spec = weight->spec;
    QUIRE_CHECK(spec.dtype == DType::kBF16 && !spec.quant.is_quantized() && spec.n % 8 == 0 &&
                    spec.k % 8 == 0,
                "[run_experts] expected bf16 [8 n, 8 k] on a GPU, got {} [{}, {}]",
                to_string(spec.dtype), spec.n, spec.k);
    return static_cast<const bfloat16*>(weight->data);
  });
}

Stacked<float> stacked_bias(std::span<const ExpertWeights> experts,
                            const float* ExpertWeights::*part) {
  return stacked<float>(experts, [&](const ExpertWeights& expert) { return expert.*part; });
}

// Where the experts' inside lies, of which this rank has some columns.
struct Inside {
  bfloat16* all = nullptr;  // [pairs, I]
  bfloat16* own = nullptr;  // its first column of this rank
  int64_t stride = 0;       // I
  bool by_pair = false;
};

Inside inside_of_all(const RunExpertsParams& p, bfloat16* workspace) {
  if (p.exchange == nullptr) return {workspace, workspace, p.experts.front().up->spec.n, false};
  auto* const all = reinterpret_cast<bfloat16*>(p.exchange->inside);
  return {all, all + p.exchange->first_inside, p.exchange->inside_stride, true};
}

struct Pairs {
  int64_t count = 0;
  int tile_rows = 0;
  int64_t max_tiles = 0;
};

void multiply(Stream& stream, ExpertStage stage, const ExpertProductArgs& args,
              const Pairs& pairs) {
  const auto many_rows =
      gpu(stream).info().compute_capability == 90 ? many_rows_experts_sm90a : many_rows_experts;
  const auto product = pairs.tile_rows < 64 ? few_rows_experts : many_rows;
  product(stream, stage, args, pairs.tile_rows, pairs.max_tiles);
}

void sum_outputs(Stream& stream, const RunExpertsParams& p, const float* outputs,
                 int64_t hidden_size) {
  const int64_t out_stride = p.exchange != nullptr ? p.exchange->out_stride : hidden_size;
  const LaunchShape shape{
      .num_blocks = blocks_for(gpu(stream), p.num_tokens * hidden_size / kColumns, kThreads, 8),
      .num_threads = kThreads};
  with_float_type(p.out.dtype(), [&](auto type) {
    using T = decltype(type);
    launch<sum_experts_kernel<T>>(
        stream, shape, outputs, p.expert_weights, static_cast<T*>(p.out.data()), out_stride,
        int{p.experts_per_token}, hidden_size, p.num_tokens, p.accumulate);
  });
}

}  // namespace

int64_t experts_workspace_bytes(const Stream& /*stream*/, int64_t max_tokens,
                                std::span<const ExpertWeights> experts, int32_t experts_per_token) {
  const ExpertWeights& expert = experts.front();
  return experts_workspace(max_tokens * experts_per_token, expert.up->spec.n, expert.down->spec.n)
      .num_bytes;
}

void run_experts(Stream& stream, const RunExpertsParams& p) {
  if (p.num_tokens == 0) return;
  QUIRE_CHECK(p.spread == nullptr && p.updates == nullptr && p.x.dtype() == DType::kBF16,
              "[run_experts] all experts, no adapters and bf16 inputs on a GPU");
  const ExpertWeights& expert = p.experts.front();
  const int64_t hidden_size = expert.down->spec.n;
  const int64_t inside_size = expert.up->spec.n;
  const auto num_experts = static_cast<int64_t>(p.experts.size());
  Pairs pairs{.count = p.num_tokens * p.experts_per_token};
  pairs.tile_rows = expert_tile_rows(pairs.count, num_experts);
  pairs.max_tiles = max_expert_tiles(pairs.count, num_experts, pairs.tile_rows);

  auto* const workspace = static_cast<std::byte*>(p.workspace);
  const ExpertsWorkspace cut = experts_workspace(pairs.count, inside_size, hidden_size);
  auto* const num_tiles = reinterpret_cast<int32_t*>(workspace + cut.num_tiles_at);
  auto* const tiles = reinterpret_cast<ExpertTile*>(workspace + cut.tiles_at);
  auto* const rows = reinterpret_cast<int32_t*>(workspace + cut.pairs_at);
  const Inside inside = inside_of_all(p, reinterpret_cast<bfloat16*>(workspace + cut.inside_at));
  auto* const outputs = reinterpret_cast<float*>(workspace + cut.outputs_at);
  sort_pairs(stream, {.expert_ids = p.expert_ids,
                      .num_pairs = static_cast<int32_t>(pairs.count),
                      .num_experts = static_cast<int32_t>(num_experts),
                      .tile_rows = pairs.tile_rows,
                      .num_tiles = num_tiles,
                      .tiles = tiles,
                      .pairs = rows});
  multiply(stream, expert.gate != nullptr ? ExpertStage::kGatedInside : ExpertStage::kInside,
           {.x = static_cast<const bfloat16*>(p.x.data()),
            .per_token = p.experts_per_token,
            .gate = stacked_weights(p.experts, &ExpertWeights::gate),
            .weight = stacked_weights(p.experts, &ExpertWeights::up),
            .gate_bias = stacked_bias(p.experts, &ExpertWeights::gate_bias),
            .bias = stacked_bias(p.experts, &ExpertWeights::up_bias),
            .n = inside_size,
            .k = expert.up->spec.k,
            .activation = p.activation,
            .num_tiles = num_tiles,
            .tiles = tiles,
            .pairs = rows,
            .inside = inside.own,
            .inside_stride = inside.stride,
            .inside_by_pair = inside.by_pair},
           pairs);
  if (p.exchange != nullptr) p.exchange->gather(p.exchange->context);
  multiply(stream, ExpertStage::kOutputs,
           {.x = inside.all,
            .weight = stacked_weights(p.experts, &ExpertWeights::down),
            .bias = stacked_bias(p.experts, &ExpertWeights::down_bias),
            .n = hidden_size,
            .k = inside.stride,
            .num_tiles = num_tiles,
            .tiles = tiles,
            .pairs = rows,
            .inside_by_pair = inside.by_pair,
            .outputs = outputs},
           pairs);
  sum_outputs(stream, p, outputs, hidden_size);
}

}  // namespace quire::cuda
