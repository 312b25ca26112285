#include "exec/request_table.h"

#include <algorithm>

namespace quire {

RequestState* RequestTable::find(RequestId id) {
  const auto it = states_.find(id);
  return it == states_.end() ? nullptr : it->second.get();
}

void RequestTable::follow(const StepResult& sampled) {
  for (const RequestStepResult& result : sampled.requests) {
    RequestState* const state = find(result.id);
    if (state == nullptr) continue;
    if (!result.status.ok()) state->status = result.status;
    for (const TokenId token : result.sampled_token_ids) state->append(token);
  }
}

void RequestTable::add(const NewRequest& request) {
  auto state = std::make_unique<RequestState>();
  state->id = request.id;
  state->token_ids = request.token_ids;
  state->num_prompt_tokens = request.num_prompt_tokens;
  state->kind = request.kind;
  state->params = request.params;
  state->adapter = request.adapter;
  state->pooling = request.pooling;
  state->media = request.media;
  state->block_tables.resize(static_cast<size_t>(num_groups_));
  for (TokenId& token : state->token_ids) {
    if (token >= 0 && token < vocab_size_) continue;
    state->status =
        invalid_argument("token id: expected a value in [0, {}), got {}", vocab_size_, token);
    token = 0;
  }
  state->token_ids.reserve(
      std::min<size_t>(state->token_ids.size() + static_cast<size_t>(request.params->max_tokens),
                       static_cast<size_t>(max_model_len_) + 1));
  state->sampler = SamplerState(*request.params, state->token_ids, request.num_prompt_tokens);
  states_[request.id] = std::move(state);
}

void RequestTable::retire(RequestId id) {
  const auto it = states_.find(id);
  if (it == states_.end()) return;
  retired_.push_back(std::move(it->second));
  states_.erase(it);
}

Status RequestTable::apply(const StepPlan& plan, std::span<const int32_t> num_blocks,
                           int64_t max_blocks) {
  retired_.clear();
  for (const RequestId id : plan.dropped) retire(id);
  for (const NewRequest& request : plan.new_requests) {
    if (request.params == nullptr || request.num_prompt_tokens < 0 ||
        static_cast<size_t>(request.num_prompt_tokens) > request.token_ids.size()) {
      return internal_error("step plan: request {} has no parameters or {} prompt tokens of {}",
                            request.id, request.num_prompt_tokens, request.token_ids.size());
    }
    retire(request.id);
    add(request);
  }
  for (const BlockTableUpdate& update : plan.block_updates) {
    if (update.request_index < 0 ||
        static_cast<size_t>(update.request_index) >= plan.scheduled.size() || update.group < 0 ||
        update.group >= num_groups_ || update.logical_index < 0 ||
        update.logical_index >= max_blocks || update.block.value < 0 ||
        update.block.value >= num_blocks[static_cast<size_t>(update.group)]) {
      return internal_error("step plan: block {} at ({}, {}, {}) is out of range", update.block,
                            update.request_index, update.group, update.logical_index);
    }
    RequestState* state = find(plan.scheduled[static_cast<size_t>(update.request_index)].id);
    if (state == nullptr) return internal_error("step plan: a block for an unknown request");
    std::vector<int32_t>& table = state->block_tables[static_cast<size_t>(update.group)];
    const auto index = static_cast<size_t>(update.logical_index);
    if (table.empty()) table.reserve(static_cast<size_t>(max_blocks));
    if (index >= table.size()) table.resize(index + 1, kNullBlock.value);
    table[index] = update.block.value;
  }
  return {};
}

}  // namespace quire
