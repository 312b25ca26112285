#include "sched/steps/intake.h"

#include <algorithm>
#include <utility>

namespace quire {

Status Intake::add(Request request) {
  QUIRE_RETURN_IF_ERROR(check(request));
  Roster& roster = state_.roster;
  const Entry* leader = request.fork_of ? roster.find(*request.fork_of) : nullptr;
  const bool waits = leader != nullptr && leader->state != EntryState::kFinished &&
                     leader->request.num_computed_tokens <
                         leader->request.num_prompt_tokens - (state_.stops_for_forks ? 1 : 0);
  // A fork computes only one token of its prompt.
  const int64_t num_tokens = leader == nullptr ? num_tokens_to_queue(request) : 1;
  if (Status room = roster.limits.check_room(1, num_tokens); !room.ok()) {
    ++state_.stats.num_refused;
    return room;
  }
  Entry& entry = roster.add(std::move(request), num_tokens);
  if (entry.request.kind == RequestKind::kBeam) {
    beams_.join(entry);
  } else if (waits) {
    roster.forks.add(entry);
  } else {
    roster.waiting.insert(entry);
  }
  return {};
}

int64_t Intake::num_tokens_to_queue(const Request& request) const {
  const auto prompt = static_cast<int64_t>(request.token_ids.size());
  const int32_t num_cached =
      request.reads_prefix_cache()
          ? state_.kv.probe(request.token_ids, request.cache_keys, request.media).num_tokens
          : 0;
  return std::max<int64_t>(1, prompt - num_cached);
}

Status Intake::check(const Request& request) const {
  const SchedulerConfig& config = state_.config;
  if (request.params == nullptr)
    return invalid_argument("request {}: sampling parameters are missing", request.id.value);
  if (state_.roster.find(request.id) != nullptr)
    return invalid_argument("request id {} is in use", request.id.value);
  if (request.token_ids.empty())
    return invalid_argument("the prompt is empty: expected at least one token");
  const int64_t room = int64_t{config.max_model_len} - (samples(request.kind) ? 1 : 0);
  if (static_cast<int64_t>(request.token_ids.size()) > room) {
    return invalid_argument(
        "the prompt has {} tokens: expected at most {} (the model's length is {} tokens, output "
        "included)",
        request.token_ids.size(), room, config.max_model_len);
  }
  if (request.kind == RequestKind::kBeam) QUIRE_RETURN_IF_ERROR(beams_.check(request));
  QUIRE_RETURN_IF_ERROR(check_blocks(request));
  QUIRE_RETURN_IF_ERROR(state_.roster.media.check(request));
  return check_fork(request);
}

Status Intake::check_blocks(const Request& request) const {
  const int32_t longest = max_kv_tokens(state_.config, request);
  const BlockCounts num_blocks = state_.kv.tables().sizing().blocks_for(longest);
  const BlockCounts num_usable = state_.kv.stores().num_usable();
  for (const KvPool pool : {KvPool::kAttention, KvPool::kState}) {
    if (num_blocks[pool] <= num_usable[pool]) continue;
    return too_large("the request may grow to {} tokens, which take {} {} blocks: the cache has {}",
                     longest, num_blocks[pool], pool == KvPool::kState ? "state" : "KV",
                     num_usable[pool]);
  }
  return {};
}

static bool same_media(const MediaSpan& a, const MediaSpan& b) {
  return a.begin == b.begin && a.end == b.end && a.first == b.first && a.item->key == b.item->key;
}

// A fork shares its leader's KV, so both must have the same prompt and the same keys.
Status Intake::check_fork(const Request& request) const {
  if (!request.fork_of) return {};
  const Entry* leader = state_.roster.find(*request.fork_of);
  if (leader == nullptr) return {};
  const auto prompt_end = leader->request.token_ids.begin() + leader->request.num_prompt_tokens;
  if (leader->request.cache_keys != request.cache_keys ||
      !std::equal(leader->request.token_ids.begin(), prompt_end, request.token_ids.begin(),
                  request.token_ids.end()) ||
      !std::ranges::equal(leader->request.media, request.media, same_media)) {
    return invalid_argument("request {} forks {}: expected the same prompt and cache keys",
                            request.id.value, request.fork_of->value);
  }
  return {};
}

}  // namespace quire
