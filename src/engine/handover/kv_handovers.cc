#include "engine/handover/kv_handovers.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

namespace quire {

KvHandovers::~KvHandovers() {
  for (Waiting& waiting : waiting_) {
    waiting.hold.release();
    kv_.close(waiting.sequence);
  }
}

Status KvHandovers::prepare(GenerationRequest& request) {
  if (request.hands_over_kv && (!options_.gives || files_ == nullptr)) {
    return invalid_argument(
        "kv_transfer_params: expected do_remote_decode to be false, since this server hands no KV "
        "over, got true");
  }
  if (request.handover == nullptr) return {};
  const KvHandover& handover = *request.handover;
  if (!options_.takes || files_ == nullptr) {
    return invalid_argument(
        "kv_transfer_params: expected do_remote_prefill to be false, since this server takes no KV "
        "over, got the KV of {} tokens",
        handover.num_tokens);
  }
  const int32_t cell_tokens = kv_.options().files.cell_tokens;
  // There may be one more file, of states.
  const auto most_files = std::ssize(request.prompt_token_ids) / cell_tokens + 1;
  Status status = files_->check_file_set(handover.file_set);
  if (status.ok() && (handover.num_tokens < 0 || std::ssize(handover.files) > most_files)) {
    status = invalid_argument(
        "expected at most {} files of 0 or more of the prompt's {} tokens, got {} files of {}",
        most_files, request.prompt_token_ids.size(), handover.files.size(), handover.num_tokens);
  }
  if (status.ok()) status = files_->look_for(handover.files);
  if (status.ok()) return {};
  ++num_missed_;
  request.handover = nullptr;
  if (options_.recomputes) return {};
  return unavailable("kv_transfer_params: the KV is not there: {}", status.message());
}

Status KvHandovers::check_taken(const Choice& choice, const Request* request) {
  const int32_t num_required = choice.group->num_required_tokens;
  if (num_required == 0 || choice.index > 0 || request == nullptr || !request->reads_prefix_cache())
    return {};
  if (request->num_cached_tokens >= num_required) {
    ++num_taken_;
    return {};
  }
  ++num_missed_;
  if (options_.recomputes) return {};
  return unavailable("kv_transfer_params: expected {} tokens of the prompt in KV files, got {}",
                     num_required, request->num_cached_tokens);
}

bool KvHandovers::waits_for(const Group& group, FinishReason reason) const {
  return group.hands_over_kv && group.num_unfinished == 0 &&
         (reason == FinishReason::kStop || reason == FinishReason::kLength);
}

void KvHandovers::fill(KvFileStats& stats) const {
  stats.handovers = num_handovers_;
  stats.handover_tokens = num_tokens_;
  stats.handovers_cut = num_cut_;
  stats.takeovers = num_taken_.load(std::memory_order_relaxed);
  stats.takeovers_failed = num_missed_.load(std::memory_order_relaxed);
}

void KvHandovers::begin(Answer answer, const Request& request, int64_t now_us) {
  // Prompts with media are not handed over, since their tokens do not tell the content.
  const auto num_prompt = static_cast<size_t>(request.num_prompt_tokens);
  const std::span<const TokenId> prompt =
      std::span(request.token_ids).first(request.media.empty() ? num_prompt : 0);
  answer.choice->group->is_handing_over = true;
  Waiting waiting{.answer = std::move(answer),
                  .sequence = kv_.open(request.id, request.cache_keys),
                  .until_us = now_us + options_.lease_us};
  const PrefixHit hit = kv_.lookup_whole_blocks(waiting.sequence, prompt);
  waiting.hold = kv_.hold(waiting.sequence, prompt, hit);
  const std::span<const TokenId> held = prompt.first(static_cast<size_t>(hit.num_tokens));
  waiting.tokens.assign(held.begin(), held.end());
  waiting_.push_back(std::move(waiting));
}

std::optional<KvHandovers::Answer> KvHandovers::take_back(const Group& group) {
  const auto found = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& waiting) {
    return waiting.answer.choice->group == &group;
  });
  if (found == waiting_.end()) return std::nullopt;
  Answer answer = std::move(found->answer);
  answer.choice->group->is_handing_over = false;
  found->hold.release();
  kv_.close(found->sequence);
  waiting_.erase(found);
  return answer;
}

std::vector<KvHandovers::Answer> KvHandovers::poll(int64_t now_us) {
  std::vector<Answer> ended;
  for (size_t i = 0; i < waiting_.size();) {
    if (!try_end(waiting_[i], now_us)) {
      ++i;
      continue;
    }
    waiting_[i].answer.choice->group->is_handing_over = false;
    ended.push_back(std::move(waiting_[i].answer));
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return ended;
}

bool KvHandovers::try_end(Waiting& waiting, int64_t now_us) {
  FileTier& files = *kv_.files();
  BlockChain chain = kv_.tables().chain(waiting.sequence, waiting.tokens);
  files.store(waiting.sequence, chain, FileTier::Tail::kAskedAgain);
  FileTier::Stored stored = files.stored(waiting.sequence, chain);
  if (stored.is_growing && now_us < waiting.until_us) return false;
  const int32_t num_tokens = stored.num_tokens;
  if (num_tokens < std::ssize(waiting.tokens)) ++num_cut_;
  if (num_tokens > 0) {
    ++num_handovers_;
    num_tokens_ += num_tokens;
    files.lease(stored.files, now_us + options_.lease_us);
    waiting.answer.delta.handover =
        std::make_shared<const KvHandover>(KvHandover{.file_set = files_->file_set(),
                                                      .files = std::move(stored.files),
                                                      .num_tokens = num_tokens});
  }
  waiting.hold.release();
  kv_.close(waiting.sequence);
  return true;
}

}  // namespace quire
