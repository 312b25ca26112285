// ForwardInputs is the input of a forward pass for one batch; a LayerCache says where the keys and
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

// The inputs of the layers that share one block table (core/kv_spec.h).
struct KvGroupInputs {
  const int64_t* slot_mapping = nullptr;  // [T]
  const int32_t* block_table = nullptr;   // [R, max_blocks]
  int64_t max_blocks = 0;
  // For these layers the batch consists of R other sequences instead of its requests: the windows
  // of a picture. Works on CPUs only.
  int32_t num_windows = 0;                    // R; 0: the requests
  const int32_t* window_start_loc = nullptr;  // [R + 1]
  const int32_t* window_lens = nullptr;       // [R]
};

// Rows of the batch whose embeddings are given instead of looked up by token, such as those of an
// image. Work on CPUs only.
struct GivenRows {
  int64_t first = 0;  // row of the batch
  int64_t count = 0;
  const float* rows = nullptr;  // [count, stride], of which E are the embedding
  int64_t stride = 0;           // elements between rows; 0: E
  // Each embedding is followed by `num_added` more rows of E. Row i is added to the output of layer
  // i (Qwen3-VL's deepstack).
  int64_t num_added = 0;
};

// A copy of the residual stream at the input of a layer, or behind the last layer.
struct HiddenTap {
  int32_t layer = 0;
  float* out = nullptr;  // [T, E], with rows `stride` apart
  int64_t stride = 0;
};

// All arrays are in memory of the stream's device.
struct ForwardInputs {
  int64_t num_tokens = 0;                   // T >= 1
  int32_t num_reqs = 0;                     // R >= 1
  const TokenId* input_ids = nullptr;       // [T], each in [0, V)
  const int32_t* positions = nullptr;       // [T]
  const int32_t* axis_positions = nullptr;  // [T, 3], or null: TokenPositions::axes
  const int32_t* token_types = nullptr;     // [T], with DecoderSpec::num_token_types
  // [T]: the end of the tokens that each token sees. Null: each token sees those up to itself
  // (kernels/api/attention.h). Works on CPUs only.
  const int32_t* seen_ends = nullptr;
  const int32_t* query_start_loc = nullptr;  // [R + 1]
  const int32_t* seq_lens = nullptr;         // [R]
  int32_t max_query_len = 0;                 // over all requests; 0: unknown
  int64_t total_len = 0;                     // at least the sum of seq_lens; 0: unknown
  std::span<const KvGroupInputs> groups = {};
  StateSegments states = {};  // for models with states: the batch, cut into runs of tokens
  // For DecoderSpec::cross.
  CrossBlock* cross = nullptr;
  CrossSegments cross_segments = {};
  // For DecoderLimits::lora. They must stay valid through logits(). On a GPU, lora_slots takes
  // their place.
  std::span<const LoraRows> adapters = {};
  LoraSlots lora_slots = {};
  std::span<const GivenRows> given_rows = {};
  std::span<const HiddenTap> taps = {};
  DraftRows draft_rows = {};  // with DecoderSpec::draft_input
};

// The cache of one layer, and the group whose block table it uses. A layer without attention has
// none.
struct LayerCache {
  KvCacheView view;
  int32_t group = 0;
  KvCacheView index = {};  // of an indexer (nn/spec/index_spec.h); it has keys only
};

}  // namespace quire
