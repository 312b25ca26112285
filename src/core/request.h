// A request as the scheduler, the KV manager and the engine see it: ids, counts and times, no text
// and no tensor.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "core/adapter.h"
#include "core/media.h"
#include "core/pooling.h"
#include "core/request_kind.h"
#include "core/sampling_params.h"

namespace quire {

enum class RequestStatus : uint8_t {
  kWaiting,
  kRunning,
  kPreempted,  // waiting again, after having run
  kFinishedStopped,
  kFinishedLength,
  kFinishedAborted,
  kFinishedError,
};

constexpr bool is_finished(RequestStatus status) {
  return status >= RequestStatus::kFinishedStopped;
}

// Strings that are mixed into the block hash chain, each under a tag of its own, so that equal
// strings of different kinds give different hashes.
struct CacheKeys {
  std::string salt;     // the client's cache_salt, which isolates tenants
  std::string adapter;  // Adapter::content_key
  // Which media items the block or those before it hold, and where. kv/ sets it.
  std::string media = {};
  friend bool operator==(const CacheKeys&, const CacheKeys&) = default;
};

struct Request {
  RequestId id;
  RequestKind kind = RequestKind::kGenerate;
  std::vector<TokenId> token_ids;  // prompt, then output
  int32_t num_prompt_tokens = 0;
  int32_t num_computed_tokens = 0;  // tokens whose KV is in the cache
  int32_t num_cached_tokens = 0;    // prefix-cache hit at first admission
  std::shared_ptr<const SamplingParams> params;
  // What is computed from the hidden states of a request of kind kPool; null for other kinds.
  std::shared_ptr<const PoolingParams> pooling;

  RequestStatus status = RequestStatus::kWaiting;
  int32_t priority = 0;  // lower is more important
  int64_t arrival_us = 0;
  // An absolute time; after it the request fails, in whatever state it is.
  std::optional<int64_t> deadline_us;
  CacheKeys cache_keys;
  std::vector<MediaSpan> media = {};            // in the order of their tokens, without overlaps
  std::shared_ptr<const Adapter> adapter = {};  // shared with the code that loaded it; null: none
  // The leader of a fork group (n > 1): this request waits until the leader has computed the
  // prompt, then shares its blocks. Without that leader it becomes an ordinary request.
  std::optional<RequestId> fork_of;
  // The request is never planned beyond a token that a step under way is still sampling, because
  // its owner must see the token first.
  bool waits_for_values = false;
  int32_t num_preemptions = 0;

  int32_t num_tokens() const { return static_cast<int32_t>(token_ids.size()); }
  int32_t num_output_tokens() const { return num_tokens() - num_prompt_tokens; }
  int32_t num_new_tokens() const { return num_tokens() - num_computed_tokens; }
  // Prompt logprobs, and pooling over all tokens, need the hidden states of the whole prompt, which
  // the cache does not hold.
  bool reads_prefix_cache() const {
    return !params->prompt_logprobs.has_value() &&
           (pooling == nullptr || !pooling->reads_all_tokens);
  }
};

}  // namespace quire
