#include "chat/testing/reply_text.h"

#include <algorithm>
#include <regex>
#include <set>

namespace quire::test {

std::string events_text(const std::vector<ReplyEvent>& events) {
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

TokenizedReply tokenized(std::string_view text, const std::vector<AddedToken>& added) {
  TokenizedReply reply{.text = std::string(text), .tokens = {}};
  for (size_t at = 0; at < text.size();) {
    const AddedToken* best = nullptr;
    for (const AddedToken& token : added) {
      if (!text.substr(at).starts_with(token.text)) continue;
      if (best == nullptr || token.text.size() > best->text.size()) best = &token;
    }
    at += best != nullptr ? best->text.size() : 1;
    const auto byte = static_cast<TokenId>(static_cast<unsigned char>(text[at - 1]));
    reply.tokens.push_back({best != nullptr ? best->id : byte, static_cast<int64_t>(at)});
  }
  return reply;
}

std::string parsed_text(const ReplySyntax& syntax, const ReplyOptions& options,
                        const TokenizedReply& reply, const CutOptions& cut) {
  ReplyParser parser(syntax, options);
  std::vector<ReplyEvent> events;
  if (cut.piece_bytes > 0 || !cut.with_tokens) {
    const size_t piece = std::max<size_t>(cut.piece_bytes, 1);
    size_t next = 0;
    for (size_t at = 0; at < reply.text.size(); at += piece) {
      std::vector<ReplyToken> tokens;
      // A token that begins in this piece comes with it, whole.
      while (cut.with_tokens && next < reply.tokens.size() &&
             (next == 0 || reply.tokens[next - 1].text_end_bytes <
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
  return events_text(events);
}

std::vector<AddedToken> marker_tokens(const ReplyFormat& format) {
  static const std::regex kMark(R"(<[^<>\s]*>|\[[A-Z_/]+\])");
  std::vector<std::string> patterns;
  if (format.dialect != nullptr) patterns = patterns_of(*format.dialect);
  if (format.reasoning != nullptr) {
    for (std::string& pattern : patterns_of(*format.reasoning)) {
      patterns.push_back(std::move(pattern));
    }
  }
  std::set<std::string> marks;
  for (const std::string& pattern : patterns) {
    for (std::sregex_iterator it(pattern.begin(), pattern.end(), kMark), end; it != end; ++it) {
      marks.insert(it->str());
    }
  }
  std::vector<AddedToken> tokens;
  TokenId id = 1000;
  for (const std::string& mark : marks) tokens.push_back({id++, mark, true});
  return tokens;
}

}  // namespace quire::test
