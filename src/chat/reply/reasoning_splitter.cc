#include "chat/reply/reasoning_splitter.h"

#include <algorithm>

namespace quire {
namespace {

// Returns how many bytes at the end of `text` may be the beginning of a mark.
size_t may_begin(std::string_view text, const std::vector<std::string>& marks) {
  size_t longest = 0;
  for (const std::string& mark : marks) {
    for (size_t n = std::min(text.size(), mark.size() - 1); n > longest; --n) {
      if (text.ends_with(std::string_view(mark).substr(0, n))) longest = n;
    }
  }
  return longest;
}

}  // namespace

std::vector<ReasoningSplitter::Piece> ReasoningSplitter::add(std::string_view text) {
  held_ += text;
  std::vector<Piece> pieces;
  while (step(false, pieces)) {
  }
  return pieces;
}

std::vector<ReasoningSplitter::Piece> ReasoningSplitter::finish() {
  std::vector<Piece> pieces;
  while (step(true, pieces)) {
  }
  release(held_.size(), place_ == Place::kReasoning, pieces);
  place_ = Place::kAnswer;
  return pieces;
}

void ReasoningSplitter::release(size_t size, bool is_reasoning, std::vector<Piece>& pieces) {
  if (size > 0) pieces.push_back({held_.substr(0, size), is_reasoning});
  held_.erase(0, size);
}

// Returns true when the state has changed, so that the held text must be read again.
bool ReasoningSplitter::step(bool is_last, std::vector<Piece>& pieces) {
  if (place_ == Place::kAnswer) {
    release(held_.size(), false, pieces);
    return false;
  }
  if (place_ == Place::kBegin) {
    const size_t blank = std::min(held_.find_first_not_of(" \t\r\n"), held_.size());
    const std::string_view text = std::string_view(held_).substr(blank);
    const bool begins =
        std::any_of(style_->begins.begin(), style_->begins.end(),
                    [&](const std::string& mark) { return text.starts_with(mark); });
    if (!begins && may_begin(text, style_->begins) == text.size()) return false;
    place_ = begins ? Place::kReasoning : Place::kAnswer;
    return true;
  }
  size_t end = held_.npos, length = 0;
  for (const std::string& mark : style_->ends) {
    const size_t found = held_.find(mark);
    if (found == held_.npos || found > end || (found == end && mark.size() < length)) continue;
    end = found;
    length = mark.size();
  }
  // A mark may be the beginning of a longer one, whose rest has not come yet.
  const size_t open = is_last ? held_.size() : held_.size() - may_begin(held_, style_->ends);
  const bool has_ended = end != held_.npos && (open == held_.size() || open > end);
  release(has_ended ? end + length : open, true, pieces);
  if (has_ended) place_ = Place::kAnswer;
  return has_ended;
}

}  // namespace quire
