// A request as scheduler, KV manager and engine see it: ids, counts and times, no text and no
// tensor.
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

// These strings are mixed into the block hash chain, each under a tag of its own, so that equal
// strings of different kinds never meet.
struct CacheKeys {
  std::string salt;     // tenant isolation (cache_salt)
  std::string adapter;  // Adapter::content_key
  // Tells which media items the block or those before it hold, and where; kv/ fills it.
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
  // Says what is made of the hidden states of a request of kind kPool; others have null.
  std::shared_ptr<const PoolingParams> pooling;

  RequestStatus status = RequestStatus::kWaiting;
  int32_t priority = 0;  // lower first
  int64_t arrival_us = 0;
  std::optional<int64_t> deadline_us;  // absolute; past it the request is failed wherever it is
  CacheKeys cache_keys;
  std::vector<MediaSpan> media = {};            // in order of their tokens, none overlaps another
  std::shared_ptr<const Adapter> adapter = {};  // shared with whoever loaded it; null: none
  // The leader of a fork group (n > 1): this request waits until the leader has computed the
  // prompt, then shares its blocks. Falls back to an ordinary request when the leader is gone.
  std::optional<RequestId> fork_of;
  // Not planned beyond a token whose value a step under way leaves open: somebody must see the
  // value first.
  bool waits_for_values = false;
  int32_t num_preemptions = 0;

  int32_t num_tokens() const { return static_cast<int32_t>(token_ids.size()); }
  int32_t num_output_tokens() const { return num_tokens() - num_prompt_tokens; }
  int32_t num_new_tokens() const { return num_tokens() - num_computed_tokens; }
  // What is made of all of the prompt's hidden states needs them; the cache does not hold them.
  bool reads_prefix_cache() const {
    return !params->prompt_logprobs.has_value() &&
           (pooling == nullptr || !pooling->reads_all_tokens);
  }
};

}  // namespace quire
