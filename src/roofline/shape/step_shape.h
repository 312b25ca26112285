// The shape of a step is all that its cost depends on. It consists of sums, so that it can be kept
// up to date as requests come and go.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/step.h"

namespace quire {

// A model has at most this many distinct sliding windows; ModelShape::validate() holds models to
// it.
inline constexpr int kMaxWindows = 2;

// A PromptChunk is num_tokens of one request that run after `context` tokens whose KV is there
// already.
struct PromptChunk {
  int32_t num_tokens = 0;  // >= 2; a single token is a decode, whatever it is a token of (L2)
  int32_t context = 0;
};

// DecodeSums are sums over requests that run one token each. `context` counts the keys that the
// token sees, itself included.
struct DecodeSums {
  int32_t num_requests = 0;
  int64_t context = 0;                          // Σ
  std::array<int64_t, kMaxWindows> windowed{};  // Σ min(context, window), by ModelShape::windows()
  int32_t max_context = 0;                      // an upper bound; 0: unknown
};

// These tokens of one request look at so many rows of a source each.
struct SourceChunk {
  int32_t num_tokens = 0;
  int32_t num_rows = 0;
};

struct StepShape {
  int32_t num_tokens = 0;    // T, scheduled
  int32_t num_requests = 0;  // R
  int32_t num_sampled = 0;   // rows of logits
  DecodeSums decode;
  std::vector<PromptChunk> chunks;  // capacity is kept by clear()
  // With ModelShape::source, these are the rows that requests of one token look at, the tokens of
  // the others, and the rows of each source that is encoded.
  int64_t decode_source_rows = 0;          // Σ
  std::vector<SourceChunk> source_chunks;  // likewise
  std::vector<int32_t> encoded_rows;
  std::vector<int32_t> pictures;  // with ModelShape::tower: embeddings of each that is encoded

  // Adds one request of the step: positions [computed, computed + scheduled). `windows` are those
  // of the model, ascending, and its tokens look at `source_rows` of a source.
  void add(int32_t num_computed_tokens, int32_t num_scheduled_tokens, bool sampled,
           std::span<const int32_t> windows, int32_t source_rows = 0);
  // What the plan has encoded for the places of tokens.
  void add_pictures(const StepPlan& plan);
  void clear();
};

// Fills the shape from what the scheduler granted. `known_tokens(i)` tokens are known of
// plan.scheduled[i], so that the step samples for those that reach it. Without it every request is
// taken to be sampled.
void assign(StepShape& shape, const StepPlan& plan, std::span<const int32_t> windows,
            std::span<const int32_t> known_tokens = {});

}  // namespace quire
