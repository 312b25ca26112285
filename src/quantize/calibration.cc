#include "quantize/calibration.h"

#include <map>
#include <numeric>

#include "exec/kv_layout.h"
#include "exec/model_plan.h"
#include "kernels/api/ops.h"
#include "nn/decoder/decoder.h"
#include "nn/decoder/decoder_memory.h"
#include "weights/checkpoint.h"

namespace quire {
namespace {

constexpr int32_t kBlockSize = 16;

// WatchingStream runs everything on its own host stream, and sums the squares of linear()'s inputs
// for the weights that it watches.
class WatchingStream final : public Stream {
 public:
  WatchingStream(ThreadTeam& team, Isa isa) : host_(team, isa) {}
  DeviceKind device() const override { return DeviceKind::kCpu; }
  const OpTable* ops() const override { return &watching_ops(); }
  HostStream& host() { return host_; }
  const HostStream& host() const { return host_; }

  void watch(const MatrixWeight& matrix, std::vector<double>& sums) {
    sums.assign(static_cast<size_t>(matrix.k), 0.0);
    watched_[&matrix.parts.front()] = &sums;
  }

  void record(const LinearParams& params) {
    const auto found = watched_.find(params.weight);
    if (found == watched_.end()) return;
    std::vector<double>& sums = *found->second;
    const float* x = params.x;
    for (int64_t row = 0; row < params.num_rows; ++row) {
      for (size_t k = 0; k < sums.size(); ++k) {
        const double value = x[row * params.x_stride + static_cast<int64_t>(k)];
        sums[k] += value * value;
      }
    }
  }

 private:
  static const OpTable& watching_ops();

  HostStream host_;
  std::map<const PackedWeight*, std::vector<double>*> watched_;
};

HostStream& host_of(Stream& stream) { return static_cast<WatchingStream&>(stream).host(); }
const HostStream& host_of(const Stream& stream) {
  return static_cast<const WatchingStream&>(stream).host();
}

template <typename Params, void (*OpTable::*Op)(Stream&, const Params&)>
void pass_on(Stream& stream, const Params& params) {
  (cpu_ops().*Op)(host_of(stream), params);
}

void watched_linear(Stream& stream, const LinearParams& params) {
  static_cast<WatchingStream&>(stream).record(params);
  cpu_ops().linear(host_of(stream), params);
}

// The ops that a forward pass uses; the others stay null.
const OpTable& WatchingStream::watching_ops() {
  static const OpTable kTable{
      .activation = pass_on<ActivationParams, &OpTable::activation>,
      .soft_cap = pass_on<SoftCapParams, &OpTable::soft_cap>,
      .embedding = pass_on<EmbeddingParams, &OpTable::embedding>,
      .rms_norm = pass_on<RmsNormParams, &OpTable::rms_norm>,
      .layer_norm = pass_on<LayerNormParams, &OpTable::layer_norm>,
      .rope_table = pass_on<RopeTableParams, &OpTable::rope_table>,
      .qkv_to_cache = pass_on<QkvToCacheParams, &OpTable::qkv_to_cache>,
      .paged_attention = pass_on<PagedAttentionParams, &OpTable::paged_attention>,
      .paged_attention_workspace_bytes =
          [](const Stream& stream, int64_t max_tokens, int64_t max_reqs, int64_t max_seq_len,
             int32_t num_heads, int32_t head_dim) {
            return cpu_ops().paged_attention_workspace_bytes(host_of(stream), max_tokens, max_reqs,
                                                             max_seq_len, num_heads, head_dim);
          },
      .paged_attention_cut_bytes =
          [](const Stream& stream, int64_t max_reqs) {
            return cpu_ops().paged_attention_cut_bytes(host_of(stream), max_reqs);
          },
      .linear = watched_linear,
      .linear_workspace_bytes =
          [](const Stream& stream, int64_t max_rows, const WeightSpec& spec) {
            return cpu_ops().linear_workspace_bytes(host_of(stream), max_rows, spec);
          },
  };
  return kTable;
}

// Runs all tokens as one sequence, in blocks of its own, group after group.
void forward(Decoder& decoder, const KvLayout& kv, std::span<const TokenId> tokens) {
  const auto num_tokens = static_cast<int32_t>(tokens.size());
  const int32_t num_blocks = (num_tokens + kBlockSize - 1) / kBlockSize;
  std::vector<int32_t> positions(tokens.size());
  std::iota(positions.begin(), positions.end(), 0);
  std::vector<std::vector<int64_t>> slots(kv.spec.groups.size());
  std::vector<std::vector<int32_t>> tables(kv.spec.groups.size());
  std::vector<KvGroupInputs> groups;
  for (size_t g = 0; g < slots.size(); ++g) {
    const int32_t first = 1 + static_cast<int32_t>(g) * num_blocks;
    for (int32_t i = 0; i < num_blocks; ++i) tables[g].push_back(first + i);
    for (int32_t t = 0; t < num_tokens; ++t) {
      slots[g].push_back(int64_t{first} * kBlockSize + t);
    }
    groups.push_back({slots[g].data(), tables[g].data(), num_blocks});
  }
  const std::vector<int32_t> query_start{0, num_tokens};
  decoder.forward({.num_tokens = num_tokens,
                   .num_reqs = 1,
                   .input_ids = tokens.data(),
                   .positions = positions.data(),
                   .query_start_loc = query_start.data(),
                   .seq_lens = &num_tokens,
                   .groups = groups});
}

}  // namespace

Result<std::vector<LayerInputMeans>> layer_inputs(const TensorSource& source,
                                                  const ModelConfig& config,
                                                  std::span<const TokenId> tokens, ThreadTeam& team,
                                                  const CalibrationOptions& options) {
  const auto num_tokens = static_cast<int64_t>(tokens.size());
  const DType dtype = dominant_dtype(source);
  QUIRE_ASSIGN_OR_RETURN(const DecoderSpec spec, make_decoder_spec(config, num_tokens + 1, dtype));
  if (spec.has_states() || spec.has_latents()) {
    return unimplemented(
        "calibration: layers that carry a state or attend to latents cannot be watched; use a "
        "scheme without "
        "calibration");
  }
  WatchingStream stream(team, options.isa);
  DecoderWeights weights(spec, {.dtype = dtype});
  HostPacking packing(stream.host());
  QUIRE_ASSIGN_OR_RETURN(const LoadPlan plan,
                         resolve_checkpoint(weights.slots(), checkpoint_names(config),
                                            config.quantization, source, packing));
  QUIRE_ASSIGN_OR_RETURN(Arena weight_arena, Arena::create(plan.arena_bytes()));
  QUIRE_RETURN_IF_ERROR(
      load_checkpoint(plan, weight_arena, {.on_progress = options.on_progress, .team = &team}));
  const DecoderLimits limits{
      .max_tokens = num_tokens, .max_reqs = 1, .max_seq_len = num_tokens + 1, .max_logit_rows = 1};
  QUIRE_ASSIGN_OR_RETURN(Arena workspace,
                         Arena::create(decoder_memory(spec, weights, limits, stream).total()));
  Decoder decoder(spec, weights, limits, stream, workspace);
  const KvLayout kv = make_kv_layout(spec, kBlockSize, DType::kF32);
  const int64_t blocks_per_group = (num_tokens + kBlockSize - 1) / kBlockSize;
  const int64_t num_blocks = 1 + blocks_per_group * static_cast<int64_t>(kv.spec.groups.size());
  QUIRE_ASSIGN_OR_RETURN(Arena kv_arena, Arena::create(num_blocks * kv.spec.block_bytes));
  decoder.bind_cache(kv.layer_caches(kv_arena.allocate_bytes(num_blocks * kv.spec.block_bytes)));

  std::vector<LayerInputMeans> inputs(spec.layers.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    stream.watch(weights.layer(i).qkv.weight, inputs[i].qkv);
    stream.watch(weights.layer(i).gate_up.weight, inputs[i].gate_up);
    stream.watch(weights.layer(i).down.weight, inputs[i].down);
  }
  forward(decoder, kv, tokens);
  for (LayerInputMeans& layer : inputs) {
    for (std::vector<double>* sums : {&layer.qkv, &layer.gate_up, &layer.down}) {
      for (double& sum : *sums) sum /= static_cast<double>(num_tokens);
    }
  }
  return inputs;
}

}  // namespace quire
