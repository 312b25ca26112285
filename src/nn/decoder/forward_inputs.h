// ForwardInputs is what a forward pass reads of one batch; a LayerCache says where the keys and
// values of a layer lie.
#pragma once

#include <cstdint>
#include <span>

#include "base/ids.h"
#include "kernels/api/kv_cache.h"
#include "kernels/api/state.h"
#include "nn/adapters/lora_batch.h"
#include "nn/decoder/cross_block.h"
#include "nn/drafting/draft_input.h"

namespace quire {

// Layers with one block table (core/kv_spec.h).
struct KvGroupInputs {
  const int64_t* slot_mapping = nullptr;  // [T]
  const int32_t* block_table = nullptr;   // [R, max_blocks]
  int64_t max_blocks = 0;
  // These layers see the batch as R other sequences instead of its requests: the windows of a picture.
  // This works on CPUs alone.
  int32_t num_windows = 0;                    // R; 0: the requests
  const int32_t* window_start_loc = nullptr;  // [R + 1]
  const int32_t* window_lens = nullptr;       // [R]
};

// Rows of the batch whose embeddings are given instead of being looked up by token: an image's. They
// work on CPUs alone.
struct GivenRows {
  int64_t first = 0;  // of the batch
  int64_t count = 0;
  const float* rows = nullptr;  // [count, stride], of which E are the embedding
  int64_t stride = 0;           // elements between rows; 0: E
  // Behind each embedding lie `num_added` more rows of E. Row i is added to what layer i puts out
  // (Qwen3-VL's deepstack).
  int64_t num_added = 0;
};

// Copies the residual stream that enters a layer, or leaves the last one.
struct HiddenTap {
  int32_t layer = 0;
  float* out = nullptr;  // [T, E], with rows `stride` apart
  int64_t stride = 0;
};

// All arrays lie where the stream's device reads them.
struct ForwardInputs {
  int64_t num_tokens = 0;                   // T >= 1
  int32_t num_reqs = 0;                     // R >= 1
  const TokenId* input_ids = nullptr;       // [T], each in [0, V)
  const int32_t* positions = nullptr;       // [T]
  const int32_t* axis_positions = nullptr;  // [T, 3], or null: TokenPositions::axes
  const int32_t* token_types = nullptr;     // [T], with DecoderSpec::num_token_types
  // Each of the [T] says where the tokens end that a token sees. Where it is null, each sees those
  // up to itself (kernels/api/attention.h). It works on CPUs alone.
  const int32_t* seen_ends = nullptr;
  const int32_t* query_start_loc = nullptr;  // [R + 1]
  const int32_t* seq_lens = nullptr;         // [R]
  int32_t max_query_len = 0;                 // of any request; 0: not known
  int64_t total_len = 0;                     // at least the sum of seq_lens; 0: not known
  std::span<const KvGroupInputs> groups = {};
  StateSegments states = {};  // of models with states: the batch, cut into runs of tokens
  // With DecoderSpec::cross.
  CrossBlock* cross = nullptr;
  CrossSegments cross_segments = {};
  // They are used with DecoderLimits::lora and stay valid through logits(). On a GPU there are
  // slots instead.
  std::span<const LoraRows> adapters = {};
  LoraSlots lora_slots = {};
  std::span<const GivenRows> given_rows = {};
  std::span<const HiddenTap> taps = {};
  DraftRows draft_rows = {};  // with DecoderSpec::draft_input
};

// This is the cache of one layer, with the group whose block table leads to it; a layer without
// attention does not use it.
struct LayerCache {
  KvCacheView view;
  int32_t group = 0;
  KvCacheView index = {};  // keys alone, of an indexer (nn/spec/index_spec.h)
};

}  // namespace quire
