// ReplyEncoder joins a reply's text with its tokens. It returns text in which marker tokens are
// codes (mark_table.h), and it records where each token begins in it.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "chat/reply/mark_table.h"

namespace quire {

// A token of the reply, and how many bytes of text the reply has up to its end. The text may come
// later than the token (incomplete characters, held-back stop strings).
struct ReplyToken {
  TokenId id = 0;
  int64_t text_end_bytes = 0;
};

// One thread may use it. `marks` must outlive it.
class ReplyEncoder {
 public:
  // Without `shows_special_tokens`, special tokens that are no marks show no text.
  explicit ReplyEncoder(const MarkTable& marks, bool shows_special_tokens = false)
      : marks_(marks), shows_special_tokens_(shows_special_tokens) {}

  // Returns the text that is certain. Text without tokens is plain text.
  std::string feed(std::string_view text, std::span<const ReplyToken> tokens);
  // Returns the rest at the end of the reply, which may be inside a marker.
  std::string finish();

  // Counts the tokens that begin in [begin, end) of the encoded text, and forgets them. Calls must
  // be in ascending order.
  int64_t count_tokens(int64_t begin_bytes, int64_t end_bytes);
  // Forgets the tokens that begin before `end`.
  void forget_tokens(int64_t end_bytes) { count_tokens(end_bytes, end_bytes); }

 private:
  struct Pending {
    TokenId id = 0;
    int64_t begin_bytes = 0;  // in the reply's text
    int64_t end_bytes = 0;
    bool is_begun = false;
  };
  bool take_token(std::string& out, bool ended);
  void take_text(size_t num_bytes, std::string& out);

  const MarkTable& marks_;
  const bool shows_special_tokens_;
  std::string raw_;  // text that has not been encoded
  int64_t num_raw_taken_bytes_ = 0;
  int64_t num_tokens_end_bytes_ = 0;  // end of the last token that came
  int64_t num_encoded_bytes_ = 0;
  std::deque<Pending> pending_;
  std::deque<int64_t> begins_;  // where tokens begin in the encoded text
};

}  // namespace quire
