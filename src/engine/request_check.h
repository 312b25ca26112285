// Checks whether a request can ever run, before it takes any resources.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "engine/async_engine.h"

namespace quire {

struct RequestLimits {
  int32_t vocab_size = 0;
  int32_t max_model_len = 0;
  int32_t max_logprobs = 20;  // -1: no limit
  int64_t max_prompt_logprobs_bytes = 0;
  int32_t max_num_seqs = 0;
  int32_t max_num_queued_reqs = 0;
  int64_t max_num_queued_tokens = 0;
  bool has_tokenizer = false;
  bool generates = true;
  PoolingInfo pooling = {};
  MediaInfo media = {};
};

// Returns kInvalidArgument if a field is out of bounds, kTooLarge if the request would exceed a
// limit of this engine even if nothing else ran.
Status check_request(const GenerationRequest& request, const RequestLimits& limits);

}  // namespace quire
