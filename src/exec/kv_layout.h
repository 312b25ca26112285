// KvLayout says how a model's layers share the KV pool: their groups have blocks of one size
// (core/kv_spec.h), and each layer has its place in a block.
//
//   block b   |<------------------------- block_bytes ------------------------->|
//             | layer 0: K [Hkv, D, S] | V [Hkv, S, D] | layer 3: K | V | … pad |
//
// Latents have no V. The index keys of a layer with an indexer lie behind its latents: they belong
// to the same tokens, and are copied together with the latents
// (docs/decisions/108-index-keys-beside-latents.md). The layers of the group that holds the block
// lie one after the other, each in its own shape. A block of the pool of states holds the states of
// a sequence, layer after layer.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "base/dtype.h"
#include "core/kv_files.h"
#include "core/kv_spec.h"
#include "nn/decoder/decoder.h"
#include "nn/decoder_spec.h"
#include "nn/rank_share.h"
#include "weights/checkpoint.h"

namespace quire {

// The place of the keys and values that a layer reads: its own, or those of the layer that it
// shares them with (AttentionSpec::kv_layer).
struct KvLayerPlace {
  int32_t group = 0;          // -1: the layer has no attention, or is on another stage
  int64_t offset_bytes = 0;   // of the keys in a block; the values follow
  int32_t first_kv_head = 0;  // counted over the whole model
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t latent_dim = 0;  // KvCacheView::latent_dim; above 0: no values
  int32_t index_dim = 0;   // of the index keys after the latents; 0: none
  KvOrder order = KvOrder::kCpu;
  int64_t first_scale = 0;  // of its first head, in KvLayout::key_scales and value_scales
};

struct KvLayout {
  KvSpec spec;
  DType dtype = DType::kBF16;
  std::vector<KvLayerPlace> layers;
  // The offset of each layer's state in a block of states; -1: the layer has none here.
  std::vector<int64_t> state_offsets;  // floats
  std::vector<int64_t> state_floats;
  // The scales of an fp8 cache's KV heads, layer by layer; empty: all are 1. The views of
  // layer_caches() point into them.
  std::vector<float> key_scales;
  std::vector<float> value_scales;

  // Returns the bytes of KV for one token over all layers, padding included.
  double bytes_per_token() const;
  // Returns the bytes of one token's keys and values in one layer, divided by their number: more
  // than the size of an element where scales are stored beside them.
  double bytes_per_element() const;
  std::vector<LayerCache> layer_caches(void* pool) const;  // one per layer; they borrow the scales
  std::vector<StateView> state_views(void* pool) const;    // one per layer
  // Returns which bytes of a block of the pool belong to which layer, head and part, for KV files.
  std::vector<KvStrip> strips(KvPool pool) const;
};

inline constexpr RowRange kAllLayers = {0, std::numeric_limits<int64_t>::max()};

// The part of a model's keys, values and states that one rank of one stage stores.
struct KvPart {
  RankShare share = {};          // the heads of the rank
  RowRange layers = kAllLayers;  // the layers of the stage
};

// `state_block_size` is the number of tokens between two snapshots of the states, a multiple of
// block_size. The groups are those of the whole model, because all ranks and stages share block
// tables; the blocks have room only for `part`.
KvLayout make_kv_layout(const DecoderSpec& whole, int32_t block_size, DType dtype,
                        int32_t state_block_size = KvSpec().state.block_size,
                        const KvPart& part = {});

}  // namespace quire
