#include "exec/kv_layout.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "core/kv_grouping.h"

namespace quire {
namespace {

// The block size of a stage of a rank that stores nothing in the pool.
constexpr int64_t kLeastBlockBytes = 64;

bool has(const RowRange& layers, size_t layer) {
  return static_cast<int64_t>(layer) >= layers.begin && static_cast<int64_t>(layer) < layers.end;
}

int64_t half_block_bytes(const KvLayout& layout, const KvLayerPlace& place) {
  return kv_half_block_bytes(layout.dtype, place.num_kv_heads, place.head_dim,
                             layout.spec.block_size);
}

// The bytes of a layer's index keys in a block.
int64_t index_block_bytes(const KvLayout& layout, const KvLayerPlace& place) {
  if (place.index_dim == 0) return 0;
  return kv_half_block_bytes(layout.dtype, 1, place.index_dim, layout.spec.block_size);
}

int64_t layer_block_bytes(const KvLayout& layout, const KvLayerPlace& place) {
  return (place.latent_dim > 0 ? 1 : 2) * half_block_bytes(layout, place) +
         index_block_bytes(layout, place);
}

// A model whose tokens see all others computes a prompt in one step. It reads a layer's keys and
// values before it writes those of the next layer, so that all layers can use the same place.
void share_one_place(KvLayout& layout) {
  KvGroupSpec group;
  for (size_t i = 0; i < layout.layers.size(); ++i) {
    group.layers.push_back(static_cast<int32_t>(i));
    layout.layers[i].group = 0;
    layout.spec.block_bytes =
        std::max(layout.spec.block_bytes, layer_block_bytes(layout, layout.layers[i]));
  }
  layout.spec.groups = {std::move(group)};
}

// Returns the sizes of the layers' keys and values, in no group yet.
std::vector<KvLayerPlace> places_of(const DecoderSpec& spec) {
  std::vector<KvLayerPlace> places;
  int64_t num_scales = 0;
  for (const LayerSpec& layer : spec.layers) {
    const AttentionSpec& attention = layer.attention;
    places.push_back({.group = -1,
                      .num_kv_heads = attention.num_kv_heads,
                      .head_dim = attention.head_dim,
                      .latent_dim = attention.latent.rank,
                      .index_dim = attention.index.any() ? attention.index.head_dim : 0,
                      .order = attention.index.any() ? KvOrder::kTokenMajor : KvOrder::kCpu,
                      .first_scale = num_scales});
    if (attention.any()) num_scales += attention.num_kv_heads;
  }
  return places;
}

// Groups the layers with attention by their bytes in the whole model, because on one rank layers of
// different widths can have the same size.
void add_attention_groups(const DecoderSpec& whole, KvLayout& layout) {
  const std::vector<KvLayerPlace> places = places_of(whole);
  std::vector<KvLayerKind> kinds;
  std::vector<int32_t> layers;  // the layer of each kind
  for (size_t i = 0; i < whole.layers.size(); ++i) {
    const AttentionSpec& attention = whole.layers[i].attention;
    if (!attention.any() || !attention.has_own_kv()) continue;
    kinds.push_back({attention.sliding_window, layer_block_bytes(layout, places[i])});
    layers.push_back(static_cast<int32_t>(i));
  }
  if (layers.empty()) return;
  layout.spec.groups = group_layers(kinds).groups;
  for (KvGroupSpec& group : layout.spec.groups) {
    for (int32_t& layer : group.layers) layer = layers[static_cast<size_t>(layer)];
  }
}

// Sets where the kept layers lie in the blocks of their groups.
void place_layers(const RowRange& kept, KvLayout& layout) {
  int64_t most_bytes = 0;
  for (size_t g = 0; g < layout.spec.groups.size(); ++g) {
    int64_t offset_bytes = 0;
    for (const int32_t layer : layout.spec.groups[g].layers) {
      if (!has(kept, static_cast<size_t>(layer))) continue;
      KvLayerPlace& place = layout.layers[static_cast<size_t>(layer)];
      place.group = static_cast<int32_t>(g);
      place.offset_bytes = offset_bytes;
      offset_bytes += layer_block_bytes(layout, place);
    }
    most_bytes = std::max(most_bytes, offset_bytes);
  }
  layout.spec.block_bytes = most_bytes > 0 ? most_bytes : kLeastBlockBytes;
}

void add_state_group(const DecoderSpec& spec, int32_t state_block_size, const RowRange& kept,
                     KvLayout& layout) {
  KvGroupSpec group{.kind = KvKind::kState, .sliding_window = 0, .layers = {}};
  int64_t floats = 0;
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const StateSpec& state = spec.layers[i].state;
    layout.state_offsets.push_back(state.any() && has(kept, i) ? floats : -1);
    layout.state_floats.push_back(state.any() ? state.state_floats() : 0);
    if (!state.any()) continue;
    group.layers.push_back(static_cast<int32_t>(i));
    if (!has(kept, i)) continue;
    constexpr int64_t kLine = 16;  // floats
    floats += (state.state_floats() + kLine - 1) / kLine * kLine;
  }
  if (group.layers.empty()) return;
  layout.spec.groups.push_back(std::move(group));
  layout.spec.state = {.block_size = state_block_size,
                       .block_bytes = std::max(floats * int64_t{sizeof(float)}, kLeastBlockBytes)};
}

}  // namespace

KvLayout make_kv_layout(const DecoderSpec& whole, int32_t block_size, DType dtype,
                        int32_t state_block_size, const KvPart& part) {
  const DecoderSpec own = share_of(whole, part.share);
  KvLayout layout;
  layout.dtype = dtype;
  layout.spec.block_size = block_size;
  layout.layers = places_of(own);
  for (size_t i = 0; i < whole.layers.size(); ++i) {
    const AttentionSpec& attention = whole.layers[i].attention;
    if (attention.any() && cuts_heads(attention, part.share)) {
      layout.layers[i].first_kv_head =
          static_cast<int32_t>(share_of(attention, part.share).kv_heads.begin);
    }
  }
  if (whole.is_bidirectional()) {
    share_one_place(layout);
    return layout;
  }
  add_attention_groups(whole, layout);
  if (!layout.spec.groups.empty()) place_layers(part.layers, layout);
  for (size_t i = 0; i < own.layers.size(); ++i) {
    const AttentionSpec& attention = own.layers[i].attention;
    if (attention.any() && !attention.has_own_kv() && has(part.layers, i))
      layout.layers[i] = layout.layers[static_cast<size_t>(attention.kv_layer)];
  }
  add_state_group(own, state_block_size, part.layers, layout);
  return layout;
}

double KvLayout::bytes_per_token() const {
  double bytes = 0;
  for (const KvGroupSpec& group : spec.groups) {
    if (group.pool() == KvPool::kAttention) bytes += static_cast<double>(spec.block_bytes);
  }
  return bytes / spec.block_size;
}

double KvLayout::bytes_per_element() const {
  double bytes = 0, elements = 0;
  for (const KvLayerPlace& place : layers) {
    bytes += static_cast<double>(half_block_bytes(*this, place));
    elements += static_cast<double>(spec.block_size) * place.num_kv_heads * place.head_dim;
  }
  return elements > 0 ? bytes / elements : static_cast<double>(size_bytes(dtype));
}

namespace {

// `key` is where the layer's latents lie in block 0.
KvCacheView index_view(const KvLayout& layout, const KvLayerPlace& place, std::byte* key) {
  if (place.index_dim == 0) return {};
  return {.key = key + half_block_bytes(layout, place),
          .dtype = layout.dtype,
          .block_stride = layout.spec.block_bytes / size_bytes(layout.dtype),
          .block_size = layout.spec.block_size,
          .num_kv_heads = 1,
          .head_dim = place.index_dim,
          .order = place.order};
}

}  // namespace

std::vector<LayerCache> KvLayout::layer_caches(void* pool) const {
  std::vector<LayerCache> caches;
  for (const KvLayerPlace& place : layers) {
    if (place.group < 0) {
      caches.emplace_back();
      continue;
    }
    std::byte* key = static_cast<std::byte*>(pool) + place.offset_bytes;
    const auto first_scale = static_cast<size_t>(place.first_scale);
    caches.push_back(
        {.view = {.key = key,
                  .value = place.latent_dim > 0 ? nullptr : key + half_block_bytes(*this, place),
                  .dtype = dtype,
                  .block_stride = spec.block_bytes / size_bytes(dtype),
                  .block_size = spec.block_size,
                  .num_kv_heads = place.num_kv_heads,
                  .head_dim = place.head_dim,
                  .order = place.order,
                  .key_scale = key_scales.empty() ? nullptr : &key_scales[first_scale],
                  .value_scale = value_scales.empty() ? nullptr : &value_scales[first_scale],
                  .latent_dim = place.latent_dim},
         .group = place.group,
         .index = index_view(*this, place, key)});
  }
  return caches;
}

std::vector<StateView> KvLayout::state_views(void* pool) const {
  constexpr int64_t kFloat = sizeof(float);
  std::vector<StateView> views;
  for (const int64_t offset : state_offsets) {
    views.push_back(offset < 0 ? StateView{}
                               : StateView{.data = static_cast<float*>(pool) + offset,
                                           .block_stride = spec.state.block_bytes / kFloat});
  }
  return views;
}

namespace {

// Rows of one kind, `num_heads` of them per token, which begin at offset_bytes of each block.
struct StripRows {
  KvStrip::Part part;
  KvStrip::Part scales;
  int64_t offset_bytes = 0;
  int32_t num_heads = 0;
  int32_t first_head = 0;
  int32_t head_dim = 0;
  bool by_token = true;  // the numbers of a token and head are contiguous
};

void add_rows(const KvLayout& layout, int32_t layer, const StripRows& rows,
              std::vector<KvStrip>& strips) {
  const KvLayerPlace& place = layout.layers[static_cast<size_t>(layer)];
  const int64_t element_bytes = size_bytes(layout.dtype);
  const int32_t in_row = rows.by_token ? rows.head_dim : is_in_pairs(layout.dtype) ? 2 : 1;
  const int64_t head_bytes = int64_t{rows.head_dim} * layout.spec.block_size * element_bytes;
  constexpr int64_t kScaleBytes = 2;
  for (int32_t head = 0; head < rows.num_heads; ++head) {
    const auto add = [&](KvStrip::Part part, int64_t offset_bytes, int32_t num_rows,
                         int64_t token_bytes) {
      strips.push_back({.layer = layer,
                        .head = rows.first_head + head,
                        .part = part,
                        .group = place.group,
                        .offset_bytes = place.offset_bytes + rows.offset_bytes + offset_bytes,
                        .num_rows = num_rows,
                        .token_bytes = token_bytes});
    };
    add(rows.part, head * head_bytes, rows.head_dim / in_row, in_row * element_bytes);
    if (!has_token_scales(layout.dtype)) continue;
    const int64_t codes_bytes = rows.num_heads * head_bytes;
    add(rows.scales, codes_bytes + head * layout.spec.block_size * kScaleBytes, 1, kScaleBytes);
  }
}

// Adds the strips of a layer's keys, values or index keys, and of their scales if they have any.
void add_strips(const KvLayout& layout, int32_t layer, std::vector<KvStrip>& strips) {
  using Part = KvStrip::Part;
  const KvLayerPlace& place = layout.layers[static_cast<size_t>(layer)];
  if (place.group < 0) return;
  const bool by_token = place.order == KvOrder::kTokenMajor;
  const int64_t half_bytes = half_block_bytes(layout, place);
  StripRows rows{.part = Part::kKeys,
                 .scales = Part::kKeyScales,
                 .num_heads = place.num_kv_heads,
                 .first_head = place.first_kv_head,
                 .head_dim = place.head_dim,
                 .by_token = by_token};
  add_rows(layout, layer, rows, strips);
  rows.offset_bytes = half_bytes;
  if (place.latent_dim == 0) {
    rows.part = Part::kValues;
    rows.scales = Part::kValueScales;
    rows.by_token = true;
    add_rows(layout, layer, rows, strips);
  } else if (place.index_dim > 0) {
    add_rows(layout, layer,
             {.part = Part::kIndexKeys,
              .scales = Part::kIndexKeyScales,
              .offset_bytes = half_bytes,
              .num_heads = 1,
              .head_dim = place.index_dim,
              .by_token = by_token},
             strips);
  }
}

}  // namespace

std::vector<KvStrip> KvLayout::strips(KvPool pool) const {
  std::vector<KvStrip> strips;
  for (const KvGroupSpec& group : spec.groups) {
    if (group.pool() != pool) continue;
    for (const int32_t layer : group.layers) {
      if (pool == KvPool::kAttention) {
        add_strips(*this, layer, strips);
        continue;
      }
      const int64_t offset = state_offsets[static_cast<size_t>(layer)];
      constexpr int64_t kFloat = sizeof(float);
      if (offset < 0) continue;
      strips.push_back({.layer = layer,
                        .part = KvStrip::Part::kState,
                        .offset_bytes = offset * kFloat,
                        .token_bytes = state_floats[static_cast<size_t>(layer)] * kFloat});
    }
  }
  return strips;
}

}  // namespace quire
