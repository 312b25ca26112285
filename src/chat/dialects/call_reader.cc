#include "chat/dialects/call_reader.h"

#include <algorithm>

namespace quire {

std::unique_ptr<CallReader> make_call_reader(const Dialect& dialect) {
  return std::visit([&](const auto& style) { return make_reader(dialect, style); }, dialect.style);
}

ReadStep skip_opening(const Dialect& dialect, ReplyInput& in) {
  bool may_come = false;
  size_t longest = 0;
  for (const std::string& opening : dialect.openings) {
    const Match match = in.match(opening);
    if (match == Match::kYes) longest = std::max(longest, opening.size());
    may_come |= match == Match::kOpen;
  }
  if (may_come) return ReadStep::kMore;
  if (longest == 0) return ReadStep::kNoCall;
  in.skip(longest);
  return ReadStep::kAgain;
}

Match ArgumentsReader::begins(std::string_view text, bool ended) {
  if (text.empty()) return ended ? Match::kNo : Match::kOpen;
  if (text[0] != '{') return Match::kNo;
  const size_t next = text.find_first_not_of(kBlanks, 1);
  if (next == text.npos) return ended ? Match::kNo : Match::kOpen;
  return text[next] == '"' || text[next] == '}' ? Match::kYes : Match::kNo;
}

ReadStep ArgumentsReader::step(ReplyInput& in, std::string& out) {
  in.skip(scanner_.feed(in.rest(), out));
  switch (scanner_.state()) {
    case JsonScanner::State::kOpen:
      return ReadStep::kMore;
    case JsonScanner::State::kDone:
      return ReadStep::kAgain;
    case JsonScanner::State::kFailed:
      break;
  }
  return ReadStep::kNoCall;
}

ReadStep ArgumentsReader::step(ReplyInput& in, ReplySink& sink) {
  std::string out;
  const ReadStep step_of = step(in, out);
  in.commit();
  sink.arguments(out);
  return step_of;
}

}  // namespace quire
