#include "chat/reply/reply_encoder.h"

#include <algorithm>

namespace quire {
namespace {

constexpr char kNoTextByte = '\xFF';  // codes begin with it; UTF-8 has no such byte
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

}  // namespace

std::string ReplyEncoder::feed(std::string_view text, std::span<const ReplyToken> tokens) {
  raw_ += text;
  for (const ReplyToken& token : tokens) {
    const int64_t end = std::max(token.text_end_bytes, num_tokens_end_bytes_);
    pending_.push_back({.id = token.id, .begin_bytes = num_tokens_end_bytes_, .end_bytes = end});
    num_tokens_end_bytes_ = end;
  }
  std::string out;
  while (take_token(out, /*ended=*/false)) {
  }
  if (pending_.empty()) take_text(raw_.size(), out);
  return out;
}

std::string ReplyEncoder::finish() {
  std::string out;
  while (take_token(out, /*ended=*/true)) {
  }
  take_text(raw_.size(), out);
  return out;
}

// Takes the next token as far as its text has come. Returns false when it waits for text.
bool ReplyEncoder::take_token(std::string& out, bool ended) {
  if (pending_.empty()) return false;
  Pending& token = pending_.front();
  const int64_t arrived = num_raw_taken_bytes_ + static_cast<int64_t>(raw_.size());
  if (token.begin_bytes > arrived || (token.begin_bytes == arrived && token.end_bytes > arrived)) {
    return false;
  }
  const auto code = marks_.find(token.id, !shows_special_tokens_);
  const bool is_whole = token.end_bytes <= arrived;
  if (code && !is_whole && !ended) return false;
  if (!token.is_begun) {
    begins_.push_back(num_encoded_bytes_);
    token.is_begun = true;
  }
  const auto size = static_cast<size_t>(std::min(token.end_bytes, arrived) - num_raw_taken_bytes_);
  if (code && is_whole && std::string_view(raw_).substr(0, size).ends_with(code->text)) {
    // Before the marker there may be a character that earlier tokens left incomplete.
    take_text(size - code->text.size(), out);
    begins_.back() = num_encoded_bytes_;
    raw_.erase(0, code->text.size());
    num_raw_taken_bytes_ += static_cast<int64_t>(code->text.size());
    num_encoded_bytes_ += static_cast<int64_t>(code->code.size());
    out += code->code;
  } else {
    take_text(size, out);
  }
  if (!is_whole) return false;
  pending_.pop_front();
  return true;
}

void ReplyEncoder::take_text(size_t num_bytes, std::string& out) {
  const size_t before = out.size();
  for (const char c : std::string_view(raw_).substr(0, num_bytes)) {
    c == kNoTextByte ? void(out += kReplacement) : out.push_back(c);
  }
  num_encoded_bytes_ += static_cast<int64_t>(out.size() - before);
  num_raw_taken_bytes_ += static_cast<int64_t>(num_bytes);
  raw_.erase(0, num_bytes);
}

int64_t ReplyEncoder::count_tokens(int64_t begin_bytes, int64_t end_bytes) {
  const auto first = std::lower_bound(begins_.begin(), begins_.end(), begin_bytes);
  const auto last = std::lower_bound(first, begins_.end(), end_bytes);
  const auto count = static_cast<int64_t>(last - first);
  begins_.erase(begins_.begin(), last);
  return count;
}

}  // namespace quire
