// The input is a model's reply in any format, after a byte that says the formats and how long the
// pieces are: in pieces it says what it says whole.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "chat/reply_parser.h"

namespace {

// Joins neighbours of one kind.
std::string read(quire::ReplyFormat format, std::string_view text, size_t piece) {
  quire::ReplyParser parser(format);
  std::vector<quire::ReplyPart> parts;
  for (size_t at = 0; at < text.size(); at += piece) parser.feed(text.substr(at, piece), parts);
  parser.finish(parts);
  std::string out;
  auto last = quire::ReplyPart::Kind::kToolCall;
  for (const quire::ReplyPart& part : parts) {
    if (part.kind != last || part.kind == quire::ReplyPart::Kind::kToolCall) {
      out += static_cast<char>('0' + static_cast<int>(part.kind));
      out += part.name;
    }
    out += part.text;
    last = part.kind;
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const quire::ReplyFormat format{.reasoning = static_cast<quire::ReasoningFormat>(data[0] % 3),
                                  .tools = static_cast<quire::ToolCallFormat>(data[0] / 3 % 4)};
  const size_t piece = 1 + data[0] / 12 % 7;
  const std::string whole = read(format, text, size);
  QUIRE_CHECK(read(format, text, piece) == whole, "pieces of {} bytes say otherwise", piece);
  return 0;
}
