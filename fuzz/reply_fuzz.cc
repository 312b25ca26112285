// The input is a model's reply in any dialect. Parsed in pieces it must give the same result as
// parsed whole, and the arguments of a complete call must be JSON. The first bytes choose the
// dialect, the style of reasoning, the size of pieces, and whether markers are tokens.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "chat/reply/json_scanner.h"
#include "chat/reply_parser.h"
#include "chat/testing/reply_text.h"

namespace {

using quire::ReplyEvent;

void check_arguments(const std::vector<ReplyEvent>& events) {
  std::string arguments;
  for (const ReplyEvent& event : events) {
    if (event.kind == ReplyEvent::Kind::kCallBegin) arguments.clear();
    if (event.kind == ReplyEvent::Kind::kArguments) arguments += event.text;
    if (event.kind != ReplyEvent::Kind::kCallEnd || !event.is_complete) continue;
    QUIRE_CHECK(quire::is_json(arguments), "arguments are no JSON: {}", arguments);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 4) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 4, size - 4);
  const auto dialects = quire::dialects();
  const auto styles = quire::reasoning_styles();
  quire::ReplyFormat format;
  if (data[0] % (dialects.size() + 1) > 0)
    format.dialect = &dialects[data[0] % (dialects.size() + 1) - 1];
  if (data[1] % (styles.size() + 1) > 0)
    format.reasoning = &styles[data[1] % (styles.size() + 1) - 1];
  const std::vector<quire::MarkToken> markers =
      data[3] % 2 == 1 ? quire::test::marker_tokens(format) : std::vector<quire::MarkToken>();
  const quire::ReplySyntax syntax(format, markers);
  const auto reply = quire::test::tokenized(text, markers);
  const bool was_cut = data[3] % 4 >= 2;
  const quire::test::CutOptions whole{.was_cut = was_cut, .piece_bytes = size};
  const quire::test::CutOptions pieces{.was_cut = was_cut, .piece_bytes = data[2] % 9u};
  const auto events = quire::test::parsed_events(syntax, {}, reply, whole);
  check_arguments(events);
  QUIRE_CHECK(
      quire::test::parsed_text(syntax, {}, reply, pieces) == quire::test::events_text(events),
      "pieces of {} bytes say otherwise", pieces.piece_bytes);
  return 0;
}
