// ReplyInput is the undecided part of a reply, with a cursor.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace quire {

inline constexpr std::string_view kBlanks = " \t\r\n";
inline bool is_blank(char c) { return kBlanks.find(c) != std::string_view::npos; }

enum class Match : uint8_t {
  kNo,
  kOpen,  // the text so far is the beginning of the pattern
  kYes,
};

// Returns how many bytes at the end of `text` may be the beginning of `mark`.
inline size_t open_end(std::string_view text, std::string_view mark) {
  if (mark.empty()) return 0;
  for (size_t size = std::min(text.size(), mark.size() - 1); size > 0; --size) {
    if (text.ends_with(mark.substr(0, size))) return size;
  }
  return 0;
}

// Text before the cursor has been read, but may still turn out to be content; text after it has not
// been read. The text is UTF-8 with codes of marker tokens (mark_table.h).
class ReplyInput {
 public:
  void append(std::string_view text) { text_ += text; }
  // Says that no more text comes, so match() no longer returns kOpen.
  void end() { ended_ = true; }
  bool ended() const { return ended_; }

  std::string_view rest() const { return std::string_view(text_).substr(cursor_); }
  bool empty() const { return cursor_ == text_.size(); }
  std::string_view uncommitted() const {
    return std::string_view(text_).substr(begin_, cursor_ - begin_);
  }
  // Returns the position of the first uncommitted byte in the whole reply.
  int64_t offset_bytes() const { return erased_bytes_ + static_cast<int64_t>(begin_); }

  void skip(size_t num_bytes) { cursor_ += num_bytes; }
  // Returns false when only blanks were left, after which more text may come.
  bool skip_blanks() {
    while (!empty() && is_blank(text_[cursor_])) ++cursor_;
    return !empty();
  }
  // Commits the text before the cursor.
  void commit() {
    begin_ = cursor_;
    if (begin_ <= text_.size() / 2) return;  // keeps the cost of erasing linear
    text_.erase(0, begin_);
    erased_bytes_ += static_cast<int64_t>(begin_);
    begin_ = cursor_ = 0;
  }

  // Returns whether the unread text begins with `pattern`.
  Match match(std::string_view pattern) const {
    const std::string_view text = rest();
    if (text.starts_with(pattern)) return Match::kYes;
    return !ended_ && pattern.starts_with(text) ? Match::kOpen : Match::kNo;
  }

 private:
  std::string text_;
  size_t begin_ = 0;   // the first uncommitted byte
  size_t cursor_ = 0;  // begin_ <= cursor_ <= text_.size()
  int64_t erased_bytes_ = 0;
  bool ended_ = false;
};

}  // namespace quire
