// These are helpers for tests that parse replies: they cut a reply in every way and write its
// events as one line.
#pragma once

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "chat/reply_parser.h"

namespace quire::test {

// Returns "|r:…|c:…|name(arguments)". A call without an end has '?' after it, one with an id '#'
// before it. Adjacent events of the same kind are joined.
inline std::string events_text(const std::vector<ReplyEvent>& events) {
  using Kind = ReplyEvent::Kind;
  std::string out;
  Kind last = Kind::kCallEnd;
  for (const ReplyEvent& event : events) {
    switch (event.kind) {
      case Kind::kContent:
      case Kind::kReasoning:
        if (event.kind != last) out += event.kind == Kind::kReasoning ? "|r:" : "|c:";
        out += event.text;
        break;
      case Kind::kCallBegin:
        out += "|" + event.text + (event.call_id.empty() ? "" : "#" + event.call_id) + "(";
        break;
      case Kind::kArguments:
        out += event.text;
        break;
      case Kind::kCallEnd:
        out += event.is_complete ? ")" : "?";
    }
    last = event.kind;
  }
  return out;
}

// A reply and its tokens.
struct TokenizedReply {
  std::string text;
  std::vector<ReplyToken> tokens;
};

// Returns the tokens of `text` in a vocabulary of bytes and `added`: at each place the longest
// added token that fits, else one byte.
inline TokenizedReply tokenized(std::string_view text, const std::vector<MarkToken>& added) {
  TokenizedReply reply{.text = std::string(text), .tokens = {}};
  for (size_t at = 0; at < text.size();) {
    const MarkToken* best = nullptr;
    for (const MarkToken& token : added) {
      if (!text.substr(at).starts_with(token.text)) continue;
      if (best == nullptr || token.text.size() > best->text.size()) best = &token;
    }
    at += best != nullptr ? best->text.size() : 1;
    const auto byte = static_cast<TokenId>(static_cast<unsigned char>(text[at - 1]));
    reply.tokens.push_back({best != nullptr ? best->id : byte, static_cast<int64_t>(at)});
  }
  return reply;
}

struct CutOptions {
  bool was_cut = false;
  size_t piece_bytes = 0;  // of text, its tokens ahead of it; 0: one token at a time
};

// Returns the events of the reply when it is cut like that.
inline std::vector<ReplyEvent> parsed_events(const ReplySyntax& syntax, const ReplyOptions& options,
                                             const TokenizedReply& reply, const CutOptions& cut) {
  ReplyParser parser(syntax, options);
  std::vector<ReplyEvent> events;
  if (cut.piece_bytes > 0) {
    const size_t piece = cut.piece_bytes;
    size_t next = 0;
    for (size_t at = 0; at < reply.text.size(); at += piece) {
      std::vector<ReplyToken> tokens;
      // A token that begins in this piece comes with it as a whole.
      while (next < reply.tokens.size() && (next == 0 || reply.tokens[next - 1].text_end_bytes <
                                                             static_cast<int64_t>(at + piece))) {
        tokens.push_back(reply.tokens[next++]);
      }
      parser.feed(std::string_view(reply.text).substr(at, piece), tokens, events);
    }
  } else {
    int64_t begin = 0;
    for (const ReplyToken& token : reply.tokens) {
      const auto size = static_cast<size_t>(token.text_end_bytes - begin);
      parser.feed(std::string_view(reply.text).substr(static_cast<size_t>(begin), size),
                  {&token, 1}, events);
      begin = token.text_end_bytes;
    }
  }
  parser.finish(cut.was_cut, events);
  return events;
}

inline std::string parsed_text(const ReplySyntax& syntax, const ReplyOptions& options,
                               const TokenizedReply& reply, const CutOptions& cut) {
  return events_text(parsed_events(syntax, options, reply, cut));
}

// Returns every <…> and […] of a format's patterns as a token, as most vocabularies have them.
inline std::vector<MarkToken> marker_tokens(const ReplyFormat& format) {
  std::vector<std::string> patterns;
  if (format.dialect != nullptr) patterns = patterns_of(*format.dialect);
  if (format.reasoning != nullptr) {
    for (std::string& pattern : patterns_of(*format.reasoning)) {
      patterns.push_back(std::move(pattern));
    }
  }
  std::set<std::string> marks;
  for (const std::string& pattern : patterns) {
    for (size_t at = 0; at < pattern.size(); ++at) {
      const size_t open = pattern.find_first_of("<[", at);
      if (open == pattern.npos) break;
      const size_t close = pattern.find(pattern[open] == '<' ? '>' : ']', open);
      if (close == pattern.npos) break;
      const std::string mark = pattern.substr(open, close + 1 - open);
      if (mark.find_first_of(" \n<", 1) == mark.npos) marks.insert(mark);
      at = open;
    }
  }
  std::vector<MarkToken> tokens;
  for (const std::string& mark : marks) {
    tokens.push_back(
        {.id = static_cast<TokenId>(1000 + tokens.size()), .text = mark, .is_special = true});
  }
  return tokens;
}

}  // namespace quire::test
