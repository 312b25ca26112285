#include "roofline/shape/model_shape.h"

#include <algorithm>
#include <utility>

#include "roofline/shape/step_shape.h"

namespace quire {
namespace {

Status check_attention(const AttentionShape& attention) {
  if (attention == AttentionShape()) return {};
  if (attention.num_heads < 1) {
    return invalid_argument("num_heads: expected at least 1, got {}", attention.num_heads);
  }
  if (attention.latent) {
    const LatentAttention& mla = attention.mla;
    if (mla.kv_lora_rank < 1 || mla.v_head_dim < 1 ||
        mla.qk_nope_head_dim + mla.qk_rope_head_dim < 1) {
      return invalid_argument(
          "latent attention: expected kv_lora_rank, v_head_dim and query head "
          "dimensions of at least 1, got {}, {} and {}",
          mla.kv_lora_rank, mla.v_head_dim, mla.qk_nope_head_dim + mla.qk_rope_head_dim);
    }
    return {};
  }
  if (attention.num_kv_heads < 1 || attention.num_heads % attention.num_kv_heads != 0) {
    return invalid_argument("num_kv_heads: expected a divisor of num_heads {}, got {}",
                            attention.num_heads, attention.num_kv_heads);
  }
  if (attention.head_dim < 1) {
    return invalid_argument("head_dim: expected at least 1, got {}", attention.head_dim);
  }
  return {};
}

Status check_state(const StateShape& state) {
  if (state == StateShape()) return {};
  if (state.in_rows < 1 || state.inner_size < 1 || state.num_floats < 1 ||
      state.middle_elements < 0 || state.token_flops < 0) {
    return invalid_argument(
        "state: expected in_rows, inner_size and num_floats of at least 1, got {}, {} and {}",
        state.in_rows, state.inner_size, state.num_floats);
  }
  return {};
}

Status check_ffn(const FfnShape& ffn) {
  if (!ffn.moe()) return {};
  if (ffn.experts_per_token < 1 || ffn.experts_per_token > ffn.num_experts) {
    return invalid_argument("experts_per_token: expected 1 to num_experts {}, got {}",
                            ffn.num_experts, ffn.experts_per_token);
  }
  if (ffn.expert_intermediate_size < 1) {
    return invalid_argument("expert_intermediate_size: expected at least 1, got {}",
                            ffn.expert_intermediate_size);
  }
  return {};
}

// A layer without a feed-forward part must keep a state; the error names a size that is missing.
Status check_layer(const LayerGroup& group) {
  if (group.num_layers < 1) {
    return invalid_argument("num_layers: expected at least 1, got {}", group.num_layers);
  }
  QUIRE_RETURN_IF_ERROR(check_attention(group.attention));
  QUIRE_RETURN_IF_ERROR(check_state(group.state));
  return check_ffn(group.ffn);
}

Status check_source(const SourceShape& source) {
  if (!source.any()) return {};
  if (source.head_dim < 1 || source.row_size < 1 || source.max_rows < 1 || source.encoder.empty()) {
    return invalid_argument(
        "source: expected head_dim, row_size and max_rows of at least 1 and layers of an encoder, "
        "got {}, {}, {} and {}",
        source.head_dim, source.row_size, source.max_rows, source.encoder.size());
  }
  for (const LayerGroup& group : source.encoder) {
    if (!group.attention.any() || group.attention.latent || group.state.any() || group.ffn.moe())
      return invalid_argument("source: encoder: expected layers of attention and one MLP");
    QUIRE_RETURN_IF_ERROR(check_layer(group));
  }
  return {};
}

Status check_tower(const TowerShape& tower) {
  if (!tower.any()) return {};
  if (tower.rows_per_embedding < 1 || tower.max_embeddings < 1 || tower.encoder.empty()) {
    return invalid_argument(
        "tower: expected rows_per_embedding and max_embeddings of at least 1 and layers of an "
        "encoder, got {}, {} and {}",
        tower.rows_per_embedding, tower.max_embeddings, tower.encoder.size());
  }
  for (const LayerGroup& group : tower.encoder) {
    if (!group.attention.any() || group.attention.latent || group.state.any() || group.ffn.moe())
      return invalid_argument("tower: encoder: expected layers of attention and one MLP");
    QUIRE_RETURN_IF_ERROR(check_layer(group));
  }
  return {};
}

// Each part that some layers lack must be in others: a model without any attention or feed-forward
// part has states, or a source.
Status check_layers(const std::vector<LayerGroup>& groups, const SourceShape& source) {
  bool any_state = false, any_ffn = false, any_attention = source.num_layers > 0;
  for (const LayerGroup& group : groups) {
    QUIRE_RETURN_IF_ERROR(check_layer(group));
    any_state |= group.state.any();
    any_ffn |= group.ffn.any();
    any_attention |= group.attention.any();
  }
  if (!any_ffn && !any_state) {
    return invalid_argument("intermediate_size: expected at least 1, got {}",
                            groups.front().ffn.intermediate_size);
  }
  if (!any_attention && !any_state) {
    return invalid_argument("num_heads: expected at least 1, got {}",
                            groups.front().attention.num_heads);
  }
  return {};
}

}  // namespace

double AttentionShape::num_parameters(int64_t hidden_size) const {
  const auto hidden = static_cast<double>(hidden_size);
  const double heads = num_heads;
  if (!latent) {
    const double heads_in = heads + (shares_kv ? 0 : 2.0 * num_kv_heads);
    return hidden * (num_inputs * heads_in + heads) * head_dim;
  }
  const double query_dim = heads * (mla.qk_nope_head_dim + mla.qk_rope_head_dim);
  const double query =
      mla.q_lora_rank > 0 ? mla.q_lora_rank * (hidden + query_dim) : hidden * query_dim;
  const double latent_down = hidden * (mla.kv_lora_rank + mla.qk_rope_head_dim);
  const double latent_up = mla.kv_lora_rank * heads * (mla.qk_nope_head_dim + mla.v_head_dim);
  const double index_dim = index.head_dim;
  const double indexer =
      index.num_heads * (mla.q_lora_rank * index_dim + hidden) + index_dim * hidden;
  return query + latent_down + latent_up + heads * mla.v_head_dim * hidden + indexer;
}

double AttentionShape::kv_elements_per_token() const {
  if (shares_kv) return 0;
  if (latent) {
    return mla.kv_lora_rank + mla.qk_rope_head_dim + (index.num_heads > 0 ? index.head_dim : 0);
  }
  return 2.0 * num_kv_heads * head_dim;
}

double StateShape::num_parameters(int64_t hidden_size) const {
  return static_cast<double>(hidden_size) * static_cast<double>(in_rows + inner_size) +
         static_cast<double>(middle_elements);
}

double LayerGroup::num_mixer_parameters(int64_t hidden_size) const {
  return attention.num_parameters(hidden_size) + state.num_parameters(hidden_size) +
         static_cast<double>(more_elements);
}

bool LayerGroup::is_like(const LayerGroup& other) const {
  return attention == other.attention && ffn == other.ffn && state == other.state &&
         more_elements == other.more_elements && table_elements == other.table_elements;
}

double SourceShape::num_parameters(int64_t hidden_size) const {
  return 2 *
         (rows() * static_cast<double>(hidden_size) + kv_rows() * static_cast<double>(row_size));
}

double FfnShape::num_expert_parameters(int64_t hidden_size) const {
  return static_cast<double>(num_matrices) * static_cast<double>(hidden_size) *
         expert_intermediate_size;
}

int32_t ModelShape::num_layers() const {
  int32_t count = 0;
  for (const LayerGroup& group : groups) count += group.num_layers;
  return count;
}

int32_t ModelShape::num_source_layers() const {
  return source.num_layers > 0 ? source.num_layers : num_layers();
}

namespace {

enum class Experts : uint8_t { kAll, kActive };

// The sums are in floating point, so that no file can make them overflow; they are exact below
// 2^53.
double count_layers(const std::vector<LayerGroup>& groups, int64_t hidden_size, Experts which) {
  const auto hidden = static_cast<double>(hidden_size);
  double total = 0;
  for (const LayerGroup& group : groups) {
    const FfnShape& ffn = group.ffn;
    const double dense =
        ffn.num_matrices * hidden *
        (static_cast<double>(ffn.intermediate_size) + ffn.shared_intermediate_size);
    const double experts = which == Experts::kAll ? ffn.num_experts : ffn.experts_per_token;
    const double table = which == Experts::kAll ? static_cast<double>(group.table_elements) : 0;
    const double routed =
        ffn.moe() ? experts * ffn.num_expert_parameters(hidden_size) + hidden * ffn.num_experts : 0;
    total += group.num_layers * (group.num_mixer_parameters(hidden_size) + dense + routed + table);
  }
  return total;
}

double count_parameters(const ModelShape& model, Experts which) {
  const double table =
      static_cast<double>(model.vocab_size) * static_cast<double>(model.hidden_size);
  return (model.tied_head || which == Experts::kActive ? 1 : 2) * table +
         count_layers(model.groups, model.hidden_size, which) +
         model.num_source_layers() * model.source.num_parameters(model.hidden_size);
}

}  // namespace

double SourceShape::num_encoder_parameters() const {
  return static_cast<double>(front_elements) +
         count_layers(encoder, encoder_width(), Experts::kAll);
}

double TowerShape::num_parameters() const {
  return static_cast<double>(patch_elements + projector_elements) +
         count_layers(encoder, width, Experts::kAll);
}

int64_t ModelShape::num_parameters() const {
  return num_decoder_parameters() +
         static_cast<int64_t>(source.num_encoder_parameters() + tower.num_parameters());
}

int64_t ModelShape::num_active_parameters() const {
  return static_cast<int64_t>(count_parameters(*this, Experts::kActive) +
                              source.num_encoder_parameters());
}

int64_t ModelShape::num_decoder_parameters() const {
  return static_cast<int64_t>(count_parameters(*this, Experts::kAll));
}

double ModelShape::source_bytes_per_row() const {
  return 2 * source.kv_rows() * num_source_layers() * kv.bytes();
}

double ModelShape::kv_bytes_per_token() const {
  double bytes = 0;
  for (const LayerGroup& group : groups) {
    bytes += group.num_layers * group.attention.kv_elements_per_token() * kv.bytes();
  }
  return bytes;
}

double ModelShape::state_bytes_per_sequence() const {
  double floats = 0;
  for (const LayerGroup& group : groups) {
    floats += static_cast<double>(group.num_layers) * static_cast<double>(group.state.num_floats);
  }
  return floats * sizeof(float);
}

std::vector<int32_t> ModelShape::windows() const {
  std::vector<int32_t> windows;
  for (const LayerGroup& group : groups) {
    if (group.attention.tokens_read() > 0) windows.push_back(group.attention.tokens_read());
  }
  std::sort(windows.begin(), windows.end());
  windows.erase(std::unique(windows.begin(), windows.end()), windows.end());
  return windows;
}

Status ModelShape::validate() const {
  constexpr int64_t kMaxDimension = int64_t{1} << 24;
  if (hidden_size < 1 || hidden_size > kMaxDimension) {
    return invalid_argument("hidden_size: expected 1 to {}, got {}", kMaxDimension, hidden_size);
  }
  if (vocab_size < 1 || vocab_size > kMaxDimension) {
    return invalid_argument("vocab_size: expected 1 to {}, got {}", kMaxDimension, vocab_size);
  }
  if (groups.empty()) return invalid_argument("groups: expected at least one group of layers");
  QUIRE_RETURN_IF_ERROR(check_layers(groups, source));
  QUIRE_RETURN_IF_ERROR(check_source(source));
  QUIRE_RETURN_IF_ERROR(check_tower(tower));
  constexpr double kMaxParameters = 1e15;
  if (const double parameters = count_parameters(*this, Experts::kAll) +
                                source.num_encoder_parameters() + tower.num_parameters();
      parameters > kMaxParameters) {
    return invalid_argument("expected at most {:g} parameters, got {:g}", kMaxParameters,
                            parameters);
  }
  if (windows().size() > kMaxWindows) {
    return unimplemented("expected at most {} distinct sliding windows, got {}", kMaxWindows,
                         windows().size());
  }
  return {};
}

Status Parallelism::validate(const ModelShape& model) const {
  constexpr int32_t kMaxDevices = 65536;
  if (tp < 1 || pp < 1 || ep < 1 || dp < 1 || int64_t{tp} * pp * dp > kMaxDevices) {
    return invalid_argument(
        "expected tp, pp, ep and dp of at least 1 and at most {} devices, got "
        "tp {} pp {} ep {} dp {}",
        kMaxDevices, tp, pp, ep, dp);
  }
  if (pp > model.num_layers()) {
    return invalid_argument("pp: expected at most the {} layers, got {}", model.num_layers(), pp);
  }
  for (const LayerGroup& group : model.groups) {
    if (group.attention.num_heads % tp != 0) {
      return invalid_argument("tp: expected a divisor of num_heads {}, got {}",
                              group.attention.num_heads, tp);
    }
    if (group.ffn.moe() && ep > group.ffn.num_experts) {
      return invalid_argument("ep: expected at most the {} experts, got {}", group.ffn.num_experts,
                              ep);
    }
  }
  return {};
}

ModelShape with_weights(ModelShape model, NumberFormat format) {
  model.weights = format;
  model.expert_weights = format;
  return model;
}

ModelShape with_kv(ModelShape model, NumberFormat format) {
  model.kv = format;
  return model;
}

}  // namespace quire
