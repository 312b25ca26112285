// RequestTable stores the state of each request between steps, because a StepPlan is only a diff.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "core/step.h"
#include "sample/sampler_state.h"

namespace quire {

struct RequestState {
  RequestId id;
  std::vector<TokenId> token_ids;  // prompt, then output
  int32_t num_prompt_tokens = 0;
  int32_t first_position = 0;  // of a draft model: the position in the text of its first token
  RequestKind kind = RequestKind::kGenerate;
  std::shared_ptr<const SamplingParams> params;  // shared with the engine's record of the request
  std::shared_ptr<const Adapter> adapter;        // of this executor; null: none
  std::shared_ptr<const PoolingParams> pooling;  // likewise; null: the request is not pooled
  std::vector<MediaSpan> media;
  std::vector<float> pooled;  // accumulated from the hidden states of its computed tokens
  SamplerState sampler;
  std::vector<std::vector<int32_t>> block_tables;  // per KV group: block ids by logical index
  // Tokens behind token_ids, which steps under way are sampling.
  int32_t num_open_tokens = 0;
  // If not ok, the request was found invalid when it came: it runs with harmless input and
  // reports this.
  Status status;

  // Adds one more output token.
  void append(TokenId token_id) {
    token_ids.push_back(token_id);
    sampler.append(token_id);
  }
  int64_t num_tokens() const { return static_cast<int64_t>(token_ids.size()) + num_open_tokens; }
};

// One thread may use it.
class RequestTable {
 public:
  RequestTable(int64_t vocab_size, int64_t max_model_len, int32_t num_groups)
      : vocab_size_(vocab_size), max_model_len_(max_model_len), num_groups_(num_groups) {}

  // Applies `dropped`, then `new_requests` (a request that is sent again replaces its old state),
  // then `block_updates`. kInternal: the plan contradicts itself, and nothing may run then. The
  // state of a dropped request stays until the next call, because a step under way may still use
  // it. `num_blocks` gives the size of each group's pool.
  Status apply(const StepPlan& plan, std::span<const int32_t> num_blocks, int64_t max_blocks);

  RequestState* find(RequestId id);
  // Adopts the errors and sampled tokens of another runner's results.
  void follow(const StepResult& sampled);
  size_t size() const { return states_.size(); }
  int64_t vocab_size() const { return vocab_size_; }

 private:
  void add(const NewRequest& request);
  void retire(RequestId id);

  int64_t vocab_size_;
  int64_t max_model_len_;
  int32_t num_groups_;
  std::unordered_map<RequestId, std::unique_ptr<RequestState>> states_;
  std::vector<std::unique_ptr<RequestState>> retired_;
};

}  // namespace quire
