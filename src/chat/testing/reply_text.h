// Helpers of tests that take replies apart: a reply cut in every way, and what it says as one line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/reply_parser.h"

namespace quire::test {

// "r:…|c:…|name(arguments)|"; a call without an end has '?' behind it. Neighbours of one kind are
// put together.
std::string events_text(const std::vector<ReplyEvent>& events);

// The tokens of `text` in a vocabulary of bytes and `added`: the longest added token that stands at
// a place, else one byte.
struct TokenizedReply {
  std::string text;
  std::vector<ReplyToken> tokens;
};
TokenizedReply tokenized(std::string_view text, const std::vector<AddedToken>& added);

struct CutOptions {
  bool was_cut = false;
  size_t piece_bytes = 0;   // pieces of text, tokens ahead of it; 0: one token at a time
  bool with_tokens = true;  // otherwise text alone
};
// What the reply says, cut like that.
std::string parsed_text(const ReplySyntax& syntax, const ReplyOptions& options,
                        const TokenizedReply& reply, const CutOptions& cut);

// Every marker of a format as an added token, as most vocabularies have them.
std::vector<AddedToken> marker_tokens(const ReplyFormat& format);

}  // namespace quire::test
