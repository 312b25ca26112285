// MediaGate decides which tokens of a request with media a step may compute. An item is encoded
// whole, in the first step that computes a token that stands for it; if there is no room for the
// item, the request's tokens in the step end before it.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "core/request.h"
#include "sched/media/encoder_cache.h"

namespace quire {

// Counts of the leading spans of Request::media: those whose tokens are computed, and those whose
// items the request has referred to.
struct MediaProgress {
  int32_t num_done = 0;
  int32_t num_held = 0;
};

struct MediaLimits {
  int32_t encoder_cache_tokens = 0;
  int32_t encoder_step_tokens = 0;
  int32_t max_num_batched_tokens = 0;
  bool is_bidirectional = false;  // spans must not be cut
  bool is_chunked = true;         // false: prompts must not be cut
};

// One thread may use it.
class MediaGate {
 public:
  explicit MediaGate(const MediaLimits& limits)
      : limits_(limits), cache_(limits.encoder_cache_tokens, limits.encoder_step_tokens) {}

  EncoderCache& cache() { return cache_; }
  const EncoderCache& cache() const { return cache_; }

  // Returns kTooLarge if the request's media can never be computed here.
  Status check(const Request& request) const;
  // Returns how many of `num_tokens` from `position` on a step with `budget` tokens left may
  // compute, and refers to the items that they need. 0: none in this step.
  int32_t clip(const Request& request, int32_t position, int32_t num_tokens, int32_t budget,
               MediaProgress& progress);
  // Marks the first num_computed_tokens as taken from the prefix cache: they need no embeddings.
  static void begin(const Request& request, int32_t num_computed_tokens, MediaProgress& progress);
  // Drops the references to items whose tokens are computed.
  void release(const Request& request, int32_t num_computed_tokens, MediaProgress& progress);
  // Drops all references. `keep`: the items may be used again.
  void drop(const Request& request, bool keep, MediaProgress& progress);

 private:
  const MediaLimits limits_;
  EncoderCache cache_;
};

}  // namespace quire
