// KvLayout says how a model's layers share the KV pool: their groups have blocks of one size
// (core/kv_spec.h), and each layer has its place in a block.
//
//   block b   |<------------------------- block_bytes ------------------------->|
//             | layer 0: K [Hkv, D, S] | V [Hkv, S, D] | layer 3: K | V | … pad |
//
// Latents have no V. Behind those of a layer with an indexer lie its index keys: they are needed of
// the same tokens, and so go wherever the latents go (docs/decisions/108-index-keys-beside-latents.md).
// The layers of the group that holds the block lie one after the other, each in its own shape. In
// a block of the pool of states lie the states of a sequence, layer after layer.
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

// Where the keys and values are that a layer reads: its own, or those of the layer that it shares
// them with (AttentionSpec::kv_layer).
struct KvLayerPlace {
  int32_t group = 0;          // -1: the layer has no attention, or is another stage's
  int64_t offset_bytes = 0;   // of the keys in each of the group's blocks; the values follow
  int32_t first_kv_head = 0;  // of the whole model
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t latent_dim = 0;  // KvCacheView::latent_dim: above 0 there are no values
  int32_t index_dim = 0;   // of the index keys behind the latents; 0: there are none
  KvOrder order = KvOrder::kCpu;
  int64_t first_scale = 0;  // of its heads in KvLayout::key_scales and value_scales
};

struct KvLayout {
  KvSpec spec;
  DType dtype = DType::kBF16;
  std::vector<KvLayerPlace> layers;
  // Of each layer's state in a block of states; -1: it has none here.
  std::vector<int64_t> state_offsets;  // floats
  std::vector<int64_t> state_floats;
  // The scales of an fp8 cache's KV heads, of all layers in order; empty: all are 1. The views of
  // layer_caches() point into them.
  std::vector<float> key_scales;
  std::vector<float> value_scales;

  // Bytes of KV for one token over all layers, padding included.
  double bytes_per_token() const;
  // Returns the bytes of the keys and values of one token and layer, divided by their number. That
  // is more than the size of an element where scales lie beside them.
  double bytes_per_element() const;
  std::vector<LayerCache> layer_caches(void* pool) const;  // one per layer; they borrow the scales
  std::vector<StateView> state_views(void* pool) const;    // one per layer
  // What of a block of a pool belongs to whom, for files.
  std::vector<KvStrip> strips(KvPool pool) const;
};

inline constexpr RowRange kAllLayers = {0, std::numeric_limits<int64_t>::max()};

// What one rank of one stage keeps of a model's keys, values and states.
struct KvPart {
  RankShare share = {};          // its heads
  RowRange layers = kAllLayers;  // its stage's
};

// `state_block_size` is the number of tokens from one snapshot of the states to the next, a
// multiple of block_size. Groups are those of the whole model, since all ranks and stages share
// block tables; in the blocks there is room for `part` alone.
KvLayout make_kv_layout(const DecoderSpec& whole, int32_t block_size, DType dtype,
                        int32_t state_block_size = KvSpec().state.block_size,
                        const KvPart& part = {});

}  // namespace quire
