// run_experts(): sorts pairs by expert, unless they are those of a single token, whose experts all
// differ. Then it multiplies the experts' insides tile by tile, then their outputs, and sums each
// token's outputs in the order of its choices. The host knows only the number of tokens, so a
// step's launches are the same whatever the router chose, and can be captured.
#include <algorithm>
#include <cstddef>

#include "kernels/cuda/experts/quant_experts.h"
#include "kernels/cuda/experts/sort_pairs.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/types.h"

namespace quire::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kColumns = 8;       // of each thread
constexpr int kMostFewRows = 32;  // of a tile

template <typename T>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, 1)
    sum_experts_kernel(const float* outputs, const float* weights, T* out, int64_t out_stride,
                       int per_token, int64_t hidden_size, int64_t num_columns, int64_t num_tokens,
                       bool accumulate) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  const int64_t per_row = num_columns / kColumns;
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

// Returns the experts whose weights are here.
std::span<const ExpertWeights> own_experts(const RunExpertsParams& p) {
  if (p.spread == nullptr) return p.experts;
  const auto first = static_cast<size_t>(p.spread->first);
  return p.experts.subspan(first, static_cast<size_t>(p.spread->end) - first);
}

// Returns the same matrix of all experts, which must be at equal distances.
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

using ExpertMatrix = const PackedWeight* ExpertWeights::*;

// T is the element of a packed matrix: bf16, or bytes for quantized ones.
template <typename T>
Stacked<T> stacked_weights(std::span<const ExpertWeights> experts, ExpertMatrix part,
                           const WeightSpec& spec) {
  return stacked<T>(experts, [&](const ExpertWeights& expert) -> const T* {
    const PackedWeight* weight = expert.*part;
    if (weight == nullptr) return nullptr;
    const WeightSpec& own = weight->spec;
    QUIRE_CHECK(own.n == spec.n && own.k == spec.k && own.quant == spec.quant &&
                    own.dtype == DType::kBF16 && spec.n % 8 == 0 && spec.k % 8 == 0,
                "[run_experts] on a GPU expected experts alike, of bf16 or quantized matrices "
                "[8 n, 8 k], got {} [{}, {}]",
                to_string(own.dtype), own.n, own.k);
    return static_cast<const T*>(weight->data);
  });
}

Stacked<float> stacked_bias(std::span<const ExpertWeights> experts,
                            const float* ExpertWeights::*part) {
  return stacked<float>(experts, [&](const ExpertWeights& expert) { return expert.*part; });
}

// Where the experts' inside is stored, of which this rank computes some columns.
struct Inside {
  bfloat16* all = nullptr;  // [pairs, I]
  bfloat16* own = nullptr;  // the first column of this rank
  int64_t stride = 0;       // I
  bool by_pair = false;
};

Inside inside_of_all(const RunExpertsParams& p, std::byte* workspace) {
  if (p.exchange == nullptr) {
    auto* const all = reinterpret_cast<bfloat16*>(workspace);
    return {all, all, p.experts.front().up->spec.n, false};
  }
  auto* const all = reinterpret_cast<bfloat16*>(p.exchange->inside);
  return {all, all + p.exchange->first_inside, p.exchange->inside_stride, true};
}

struct Pairs {
  int64_t count = 0;
  int tile_rows = 0;
  int64_t max_tiles = 0;
};

// Returns whether tiles of more than kMostFewRows rows go through panels for such weights.
bool takes_panels(const Stream& stream, const WeightSpec& spec) {
  return spec.quant.is_quantized() && spec.quant.zero_kind != ZeroKind::kMin &&
         gpu(stream).info().compute_capability == 90;
}

QuantExpertArgs quant_args(const ExpertRowsArgs& rows, ExpertStage stage,
                           const Stacked<uint8_t>& gate, const Stacked<uint8_t>& weight,
                           const WeightSpec& spec, int64_t num_rows) {
  QuantExpertArgs args{rows};
  args.stage = stage;
  args.gate = gate;
  args.weight = weight;
  args.layout = quant_weight_layout(spec);
  args.chunks_per_group = args.layout.chunks_per_group();
  args.has_zeros = spec.quant.zero_kind == ZeroKind::kInteger;
  args.zero = spec.quant.offset;
  args.num_rows = num_rows;
  QUIRE_CHECK(gate.first == nullptr || gate.stride == weight.stride,
              "[run_experts] gates at other distances than what they gate");
  return args;
}

// Runs one stage of all experts. `panels` is memory for the panels of its inputs, if it uses them.
void multiply(Stream& stream, const RunExpertsParams& p, ExpertStage stage,
              const ExpertRowsArgs& rows, const Pairs& pairs, std::byte* panels) {
  const bool is_gated = stage == ExpertStage::kGatedInside;
  const ExpertMatrix part =
      stage == ExpertStage::kOutputs ? &ExpertWeights::down : &ExpertWeights::up;
  const WeightSpec& spec = (p.experts.front().*part)->spec;
  const auto weights_of = [&]<typename T>(ExpertMatrix matrix) {
    return stacked_weights<T>(p.experts, matrix, spec);
  };
  const auto gates_of = [&]<typename T> {
    return is_gated ? weights_of.template operator()<T>(&ExpertWeights::gate) : Stacked<T>{};
  };
  if (spec.quant.is_quantized()) {
    const QuantExpertArgs args =
        quant_args(rows, stage, gates_of.template operator()<uint8_t>(),
                   weights_of.template operator()<uint8_t>(part), spec, pairs.count);
    if (pairs.tile_rows <= kMostFewRows)
      return quant_few_rows_experts(stream, args, spec.quant, pairs.tile_rows, pairs.max_tiles);
    return quant_many_rows_experts_sm90a(stream, args, spec.quant, pairs.max_tiles,
                                         reinterpret_cast<uint8_t*>(panels));
  }
  const auto many_rows =
      gpu(stream).info().compute_capability == 90 ? many_rows_experts_sm90a : many_rows_experts;
  const auto product = pairs.tile_rows <= 16 ? few_rows_experts : many_rows;
  product(stream, stage,
          {rows, gates_of.template operator()<bfloat16>(),
           weights_of.template operator()<bfloat16>(part)},
          pairs.tile_rows, pairs.max_tiles);
}

// Returns the rows of the tiles of a call. Quantized weights are multiplied with at most 32 rows
// or, through panels, with 128: on an H200, panels of 64 rows took longer than bf16 did.
int tile_rows_of(const Stream& stream, const RunExpertsParams& p, int64_t num_pairs) {
  const int rows = expert_tile_rows(num_pairs, static_cast<int64_t>(p.experts.size()));
  const auto takes_many = [&](const WeightSpec& spec) {
    return !spec.quant.is_quantized() || takes_panels(stream, spec);
  };
  const ExpertWeights& expert = p.experts.front();
  if (!takes_many(expert.up->spec) || !takes_many(expert.down->spec))
    return std::min(rows, kMostFewRows);
  const bool is_quantized =
      expert.up->spec.quant.is_quantized() || expert.down->spec.quant.is_quantized();
  return rows == 64 && is_quantized ? kMostFewRows : rows;
}

// Returns the bytes of all rows that go through panels at once.
int64_t panel_bytes(const Stream& stream, const ExpertWeights& expert, int64_t num_pairs) {
  int64_t bytes = 0;
  for (const WeightSpec& spec : {expert.up->spec, expert.down->spec})
    if (takes_panels(stream, spec)) bytes = std::max(bytes, expert_panel_bytes(num_pairs, spec.k));
  return bytes;
}

ExpertsWorkspace workspace_of(const Stream& stream, const ExpertWeights& expert,
                              int64_t num_pairs) {
  return experts_workspace(num_pairs, expert.up->spec.n, expert.down->spec.n,
                           panel_bytes(stream, expert, num_pairs));
}

// Returns what both stages have in common. Pairs of a single token need no sorting if all experts
// are here.
ExpertRowsArgs rows_of(Stream& stream, const RunExpertsParams& p, const Pairs& pairs,
                       std::byte* workspace, const ExpertsWorkspace& cut) {
  ExpertRowsArgs rows;
  rows.per_token = p.experts_per_token;
  rows.expert_ids = p.expert_ids;
  if (p.num_tokens == 1 && p.spread == nullptr) return rows;
  const SortPairsArgs sort{.expert_ids = p.expert_ids,
                           .num_pairs = static_cast<int32_t>(pairs.count),
                           .first_expert = p.spread != nullptr ? p.spread->first : 0,
                           .num_experts = static_cast<int32_t>(p.experts.size()),
                           .tile_rows = pairs.tile_rows,
                           .num_tiles = reinterpret_cast<int32_t*>(workspace + cut.num_tiles_at),
                           .tiles = reinterpret_cast<ExpertTile*>(workspace + cut.tiles_at),
                           .pairs = reinterpret_cast<int32_t*>(workspace + cut.pairs_at)};
  sort_pairs(stream, sort);
  rows.num_tiles = sort.num_tiles;
  rows.tiles = sort.tiles;
  rows.pairs = sort.pairs;
  return rows;
}

void sum_outputs(Stream& stream, const RunExpertsParams& p, const float* outputs,
                 int64_t hidden_size) {
  const int64_t out_stride = p.exchange != nullptr ? p.exchange->out_stride : hidden_size;
  const int64_t first = p.spread != nullptr ? p.spread->first_column : 0;
  const int64_t num_columns = p.spread != nullptr ? p.spread->end_column - first : hidden_size;
  QUIRE_CHECK(first % kColumns == 0 && num_columns % kColumns == 0,
              "[run_experts] expected multiples of {} columns, got {} from {} on", kColumns,
              num_columns, first);
  const LaunchShape shape{
      .num_blocks = blocks_for(gpu(stream), p.num_tokens * num_columns / kColumns, kThreads, 8),
      .num_threads = kThreads};
  with_float_type(p.out.dtype(), [&](auto type) {
    using T = decltype(type);
    launch<sum_experts_kernel<T>>(
        stream, shape, outputs + first, p.expert_weights, static_cast<T*>(p.out.data()) + first,
        out_stride, int{p.experts_per_token}, hidden_size, num_columns, p.num_tokens, p.accumulate);
  });
}

}  // namespace

int64_t experts_workspace_bytes(const Stream& stream, int64_t max_tokens,
                                std::span<const ExpertWeights> experts, int32_t experts_per_token) {
  // Ranks that spread experts have the weights of only some; all of them have the same shape.
  const auto is_here = [](const ExpertWeights& expert) {
    return expert.up != nullptr && expert.up->spec.n > 0;
  };
  const auto own = std::find_if(experts.begin(), experts.end(), is_here);
  QUIRE_CHECK(own != experts.end(), "[run_experts] no expert is here");
  return workspace_of(stream, *own, max_tokens * experts_per_token).num_bytes;
}

void run_experts(Stream& stream, const RunExpertsParams& all) {
  if (all.num_tokens == 0) return;
  QUIRE_CHECK(all.updates == nullptr && all.x.dtype() == DType::kBF16,
              "[run_experts] no adapters and bf16 inputs on a GPU");
  RunExpertsParams p = all;
  p.experts = own_experts(all);
  const ExpertWeights& expert = p.experts.front();
  const int64_t hidden_size = expert.down->spec.n;
  const auto num_experts = static_cast<int64_t>(p.experts.size());
  Pairs pairs{.count = p.num_tokens * p.experts_per_token};
  pairs.tile_rows = tile_rows_of(stream, p, pairs.count);
  pairs.max_tiles = max_expert_tiles(pairs.count, num_experts, pairs.tile_rows);

  auto* const workspace = static_cast<std::byte*>(p.workspace);
  const ExpertsWorkspace cut = workspace_of(stream, expert, pairs.count);
  std::byte* const inputs = workspace + cut.inputs_at;
  std::byte* const results = workspace + cut.results_at;
  // If down reads panels, these are stored in `inputs`.
  const bool by_panels = pairs.tile_rows > kMostFewRows && takes_panels(stream, expert.down->spec);
  const Inside inside = inside_of_all(p, by_panels ? results : inputs);
  ExpertRowsArgs rows = rows_of(stream, p, pairs, workspace, cut);
  rows.inside_by_pair = inside.by_pair;

  ExpertRowsArgs insides = rows;
  insides.x = static_cast<const bfloat16*>(p.x.data());
  insides.gate_bias = stacked_bias(p.experts, &ExpertWeights::gate_bias);
  insides.bias = stacked_bias(p.experts, &ExpertWeights::up_bias);
  insides.n = expert.up->spec.n;
  insides.k = expert.up->spec.k;
  insides.activation = p.activation;
  insides.inside = inside.own;
  insides.inside_stride = inside.stride;
  multiply(stream, p, expert.gate != nullptr ? ExpertStage::kGatedInside : ExpertStage::kInside,
           insides, pairs, by_panels ? inputs : results);
  if (p.exchange != nullptr) p.exchange->gather(p.exchange->context);

  ExpertRowsArgs outputs = rows;
  outputs.x = inside.all;
  outputs.bias = stacked_bias(p.experts, &ExpertWeights::down_bias);
  outputs.n = hidden_size;
  outputs.k = inside.stride;
  outputs.outputs = p.spread != nullptr ? p.spread->outputs : reinterpret_cast<float*>(results);
  multiply(stream, p, ExpertStage::kOutputs, outputs, pairs, inputs);
  if (p.spread != nullptr) p.spread->gather(p.spread->context, {});
  sum_outputs(stream, p, outputs.outputs, hidden_size);
}

}  // namespace quire::cuda
