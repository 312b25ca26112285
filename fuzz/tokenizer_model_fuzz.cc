// The input is a tokenizer.model. The result must be an error, or a tokenizer whose ids are in
// range and whose text is well-formed.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tokenizer/sentencepiece/sentencepiece_model.h"
#include "tokenizer/unicode/unicode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto loaded = quire::tokenizer_from_sentencepiece(input);
  if (!loaded.ok()) return 0;
  const quire::Tokenizer& tokenizer = **loaded;
  constexpr size_t kMaxText = 4096;
  for (const std::string_view text :
       {std::string_view("Hello  \xE2\x96\x81 w\xC3\xB6rld \xFF\n"), input.substr(0, kMaxText)}) {
    const auto ids = tokenizer.encode(text);
    for (const quire::TokenId id : ids) {
      if (id < 0 || id >= tokenizer.vocab_size()) std::abort();
    }
    if (!quire::is_valid_utf8(tokenizer.decode(ids))) std::abort();
  }
  return 0;
}
