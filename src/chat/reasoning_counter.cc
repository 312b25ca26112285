#include "chat/reasoning_counter.h"

#include <algorithm>

namespace quire {
namespace {

constexpr std::string_view kThink = "<think>";
constexpr std::string_view kEndThink = "</think>";
constexpr std::string_view kBlanks = " \t\r\n";

}  // namespace

ReasoningCounter::ReasoningCounter(ReasoningFormat format)
    : format_(format), state_(format == ReasoningFormat::kNone ? State::kDone : State::kStart) {}

void ReasoningCounter::feed(std::string_view token_bytes) {
  if (state_ == State::kDone) return;
  begins_.push_back(held_.size());
  held_ += token_bytes;
  if (state_ == State::kStart) start();
  if (state_ == State::kReasoning) find_end();
}

// Whether the reply begins with <think>, blanks aside.
void ReasoningCounter::start() {
  const size_t begin = std::min(held_.find_first_not_of(kBlanks), held_.size());
  const std::string_view text = std::string_view(held_).substr(begin);
  if (text.size() < kThink.size() && kThink.starts_with(text)) return;
  if (text.starts_with(kThink)) {
    const size_t end = begin + kThink.size();
    held_.erase(0, end);
    std::erase_if(begins_, [end](size_t at) { return at < end; });
    for (size_t& at : begins_) at -= end;
  } else if (format_ != ReasoningFormat::kDeepSeekR1) {
    state_ = State::kDone;
    return;
  }
  state_ = State::kReasoning;
}

// Counts the tokens that begin before </think>; keeps what may be its beginning.
void ReasoningCounter::find_end() {
  const size_t found = held_.find(kEndThink);
  size_t end = found;
  if (found == held_.npos) {
    end = held_.size() - std::min(held_.size(), kEndThink.size() - 1);
    while (!kEndThink.starts_with(std::string_view(held_).substr(end))) ++end;
  }
  const auto first_held = std::lower_bound(begins_.begin(), begins_.end(), end);
  num_counted_ += first_held - begins_.begin();
  begins_.erase(begins_.begin(), first_held);
  for (size_t& at : begins_) at -= end;
  held_.erase(0, end);
  const bool ended = found != std::string::npos;
  num_open_ = ended ? 0 : static_cast<int64_t>(begins_.size());
  if (ended) state_ = State::kDone;
}

}  // namespace quire
