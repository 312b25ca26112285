// StepShape: everything that the cost of a step depends on. It consists of sums, so that it can be
// updated as requests come and go.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/step.h"

namespace quire {

// The most different sliding windows of a model; ModelShape::validate() checks it.
inline constexpr int kMaxWindows = 2;

// num_tokens of one request that run after `context` tokens whose KV is already computed.
struct PromptChunk {
  int32_t num_tokens = 0;  // >= 2; a single token is a decode, even of a prompt (L2)
  int32_t context = 0;
};

// Sums over requests with one token each. `context` counts the keys that the token sees, including
// itself.
struct DecodeSums {
  int32_t num_requests = 0;
  int64_t context = 0;                          // Σ
  std::array<int64_t, kMaxWindows> windowed{};  // Σ min(context, window), by ModelShape::windows()
  int32_t max_context = 0;                      // an upper bound; 0: unknown
};

// Tokens of one request, each of which attends to the same rows of a source.
struct SourceChunk {
  int32_t num_tokens = 0;
  int32_t num_rows = 0;
};

struct StepShape {
  int32_t num_tokens = 0;    // T, scheduled
  int32_t num_requests = 0;  // R
  int32_t num_sampled = 0;   // rows of logits
  DecodeSums decode;
  std::vector<PromptChunk> chunks;  // clear() keeps the capacity
  // With ModelShape::source: the rows that requests of one token attend to, the tokens of other
  // requests with their rows, and the rows of each source that is encoded.
  int64_t decode_source_rows = 0;          // Σ
  std::vector<SourceChunk> source_chunks;  // clear() keeps the capacity
  std::vector<int32_t> encoded_rows;
  std::vector<int32_t> pictures;  // with ModelShape::tower: embeddings of each encoded picture

  // Adds one request with positions [computed, computed + scheduled). `windows` are those of the
  // model, ascending; its tokens attend to `source_rows` rows of a source.
  void add(int32_t num_computed_tokens, int32_t num_scheduled_tokens, bool sampled,
           std::span<const int32_t> windows, int32_t source_rows = 0);
  // Adds the items of the plan that are encoded for places of tokens.
  void add_pictures(const StepPlan& plan);
  void clear();
};

// Sets the shape to the scheduler's plan. For plan.scheduled[i], `known_tokens(i)` tokens are
// known, so that the step samples for requests that reach the last of them. Without it every
// request counts as sampled.
void assign(StepShape& shape, const StepPlan& plan, std::span<const int32_t> windows,
            std::span<const int32_t> known_tokens = {});

}  // namespace quire
