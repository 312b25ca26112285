#include "engine/handover/kv_handovers.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "base/check.h"

namespace quire {

KvHandovers::~KvHandovers() {
  for (Waiting& waiting : waiting_) {
    waiting.hold.release();
    kv_.close(waiting.sequence);
  }
}

void KvHandovers::begin(Answer answer, const Request& request, int64_t now_us) {
  QUIRE_CHECK(!pool_.empty(), "a handover without files");
  const std::span<const TokenId> prompt =
      std::span(request.token_ids).first(static_cast<size_t>(request.num_prompt_tokens));
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
    ended.push_back(std::move(waiting_[i].answer));
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return ended;
}

bool KvHandovers::try_end(Waiting& waiting, int64_t now_us) {
  FileTier& files = *kv_.files();
  BlockChain chain = kv_.tables().chain(waiting.sequence, waiting.tokens);
  files.store(waiting.sequence, chain, true);
  FileTier::Stored stored = files.stored(waiting.sequence, chain);
  if (stored.is_growing && now_us < waiting.until_us) return false;
  const int32_t num_tokens = stored.num_blocks * kv_.block_size();
  if (num_tokens < std::ssize(waiting.tokens)) ++num_cut_;
  if (num_tokens > 0) {
    ++num_handovers_;
    num_tokens_ += num_tokens;
    files.lease(stored.files, now_us + options_.lease_us);
    waiting.answer.delta.handover = std::make_shared<const KvHandover>(
        KvHandover{.pool = pool_, .files = std::move(stored.files), .num_tokens = num_tokens});
  }
  waiting.hold.release();
  kv_.close(waiting.sequence);
  return true;
}

}  // namespace quire
