#include "engine/requests/group_maker.h"

#include <algorithm>
#include <utility>

namespace quire {
namespace {

// Returns the client's pooling settings as they apply to this model.
std::shared_ptr<const PoolingParams> pooling_of(const GenerationRequest& request,
                                                const PoolingInfo& model) {
  if (request.pooling == nullptr) return nullptr;
  auto pooling = std::make_shared<PoolingParams>(*request.pooling);
  pooling->reads_all_tokens = is_per_token(pooling->task) || model.reads_all_tokens;
  return pooling;
}

// Makes a beam ask the executor for the likeliest tokens.
void ask_for_candidates(int32_t num_candidates, SamplingParams& params) {
  params.temperature = 0;
  const int32_t num_logprobs = params.logprobs.value_or(0);
  if (num_logprobs >= 0) params.logprobs = std::max(num_logprobs, num_candidates);
}

// Sets the request's kind, and limits max_tokens to the tokens that have room.
void resolve(int32_t max_model_len, GenerationRequest& request) {
  SamplingParams& params = request.params;
  if (params.max_tokens == 0) request.kind = RequestKind::kPool;
  const auto num_prompt = static_cast<int32_t>(request.prompt_token_ids.size());
  const int32_t room = max_model_len - num_prompt;
  params.max_tokens = request.kind == RequestKind::kPool ? 0 : std::min(params.max_tokens, room);
  params.min_tokens = std::min(params.min_tokens, params.max_tokens);
  if (request.beam_search) request.kind = RequestKind::kBeam;
}

}  // namespace

std::unique_ptr<Group> GroupMaker::make_group(Submission& submission, int64_t now_us) {
  GenerationRequest& request = submission.request;
  resolve(settings_.max_model_len, request);
  const auto num_prompt = static_cast<int32_t>(request.prompt_token_ids.size());
  const SamplingParams& params = request.params;
  auto group = std::make_unique<Group>();
  group->id = submission.id;
  group->external_id = std::move(request.external_id);
  group->channel = std::move(submission.channel);
  group->num_prompt_tokens = num_prompt;
  group->num_unfinished = request.num_choices;
  if (request.beam_search) {
    group->beams =
        std::make_unique<BeamSearch>(request.num_choices, num_prompt, params, *request.beam_search);
  }
  group->hands_over_kv = request.hands_over_kv;
  if (request.handover != nullptr) {
    // At least one token of a prompt must be computed.
    const int32_t most = std::min(request.handover->num_tokens, num_prompt - 1);
    group->num_required_tokens = most / settings_.kv_hit_tokens * settings_.kv_hit_tokens;
  }
  group->copies_first =
      request.num_choices > 1 && request.kind == RequestKind::kGenerate && params.greedy();
  group->choices.resize(static_cast<size_t>(request.num_choices));
  for (int32_t i = 0; i < request.num_choices; ++i) make_choice(request, i, now_us, *group);
  return group;
}

void GroupMaker::make_choice(const GenerationRequest& request, int32_t index, int64_t now_us,
                             Group& group) {
  Choice& choice = group.choices[static_cast<size_t>(index)];
  choice.request_id = RequestId(++num_requests_);
  choice.index = index;
  choice.group = &group;
  choice.kind = request.kind;
  choice.wants_text_ends = request.wants_text_ends;
  if (index > 0 && group.copies_first) return;
  auto own = std::make_shared<SamplingParams>(request.params);
  if (request.params.seed) own->seed = choice_seed(*request.params.seed, index);
  if (index > 0) own->prompt_logprobs.reset();  // the same for all choices; choice 0 returns them
  if (group.beams) ask_for_candidates(group.beams->num_candidates(), *own);
  choice.params = std::move(own);
  choice.pooling = pooling_of(request, settings_.pooling);
  choice.times.arrival_us = request.arrival_us > 0 ? request.arrival_us : now_us;
  choice.times.queued_us = now_us;
  if (request.make_mask_source) choice.mask_source = request.make_mask_source();
  if (!tokenizer_) return;
  const std::span<const TokenId> before =
      settings_.has_text_source ? std::span<const TokenId>() : request.prompt_token_ids;
  choice.text.emplace(*tokenizer_, before, *choice.params);
}

Request GroupMaker::make_request(const Choice& choice, const GenerationRequest& request,
                                 int64_t now_us) const {
  Request r;
  r.id = choice.request_id;
  r.kind = choice.kind;
  r.token_ids = request.prompt_token_ids;
  r.num_prompt_tokens = static_cast<int32_t>(r.token_ids.size());
  r.params = choice.params;
  r.pooling = choice.pooling;
  r.media = request.media;
  r.priority = request.priority;
  r.arrival_us = choice.times.arrival_us;
  const auto timeout = request.timeout_us ? request.timeout_us : settings_.default_timeout_us;
  if (timeout) r.deadline_us = std::min(r.arrival_us, now_us) + *timeout;
  r.cache_keys = request.cache_keys;
  r.adapter = request.adapter;
  r.cache_keys.adapter = request.adapter == nullptr ? "" : request.adapter->content_key;
  r.waits_for_values = choice.mask_source != nullptr || choice.kind == RequestKind::kBeam;
  if (choice.index > 0) r.fork_of = choice.group->choices[0].request_id;
  return r;
}

}  // namespace quire
