// The input is a grammar, whose first byte chooses its kind, a zero byte and a text. The result
// must be an error, or a matcher whose masks agree with what it accepts and whose rollback restores
// earlier masks.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "grammar/grammar.h"

namespace grammar = quire::grammar;

namespace {

constexpr int kNumKinds = 7;
int fixed_kind = -1;  // set by --kind; -1 means that the first byte decides

}  // namespace

// `--kind=2` tests only one front end, by its number in GrammarKind. libFuzzer ignores options that
// begin with two dashes.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  constexpr std::string_view kFlag = "--kind=";
  for (int i = 1; i < *argc; ++i) {
    const std::string_view argument = (*argv)[i];
    if (argument.starts_with(kFlag))
      fixed_kind = std::stoi(std::string(argument.substr(kFlag.size())));
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const grammar::Vocabulary vocabulary([] {
    grammar::VocabularyParts parts;
    for (int byte = 0; byte < 256; ++byte) parts.token_bytes.push_back(std::string(1, char(byte)));
    for (const char* token : {"\": ", "{\"", "\"}", "ab", "\xC3\xA9", "],", "12", "\\u00"}) {
      parts.token_bytes.push_back(token);
    }
    parts.padded_size = static_cast<int32_t>(parts.token_bytes.size());
    return parts;
  }());
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t end = input.find('\0') == input.npos ? input.size() : input.find('\0');
  grammar::GrammarSource source;
  source.kind =
      static_cast<grammar::GrammarKind>(fixed_kind < 0 ? data[0] % kNumKinds : fixed_kind);
  source.text = input.substr(0, end);
  if (source.kind == grammar::GrammarKind::kChoice) source.choices = {source.text, "ab"};
  const grammar::GrammarLimits limits{.max_expressions = 50'000,
                                      .max_states = 20'000,
                                      .max_lexer_states = 5'000,
                                      .max_mask_steps = 100'000};
  const auto compiled = grammar::compile(source, limits);
  if (!compiled.ok()) return 0;
  grammar::Matcher matcher(*compiled, vocabulary);
  std::vector<uint32_t> row(vocabulary.mask_words()), again(vocabulary.mask_words());
  constexpr size_t kMaxText = 64;
  for (const char c : input.substr(end < input.size() ? end + 1 : end).substr(0, kMaxText)) {
    if (!matcher.fill_mask(row).ok()) return 0;
    const auto token = static_cast<uint8_t>(c);
    const bool is_allowed = (row[token / 32] >> (token % 32) & 1) != 0;
    if (matcher.accept(token) != is_allowed) {
      if (!matcher.fill_mask(again).ok()) return 0;  // a limit is exceeded
      std::abort();
    }
    if (!is_allowed) break;
    matcher.rollback(1);
    if (!matcher.fill_mask(again).ok() || again != row) std::abort();
    if (!matcher.accept(token)) std::abort();
  }
  return 0;
}
