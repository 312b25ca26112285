// The input is a tekken.json if it begins with '{', otherwise a tiktoken.model. The result must be
// an error, or a tokenizer whose ids are in range and whose text is well-formed.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "tokenizer/files/tekken.h"
#include "tokenizer/files/tiktoken.h"
#include "tokenizer/unicode/unicode.h"

namespace {

quire::Result<std::unique_ptr<quire::Tokenizer>> load(std::string_view input) {
  if (!input.starts_with('{')) return quire::tokenizer_from_kimi_tiktoken(input, "");
  auto tekken = quire::tokenizer_from_tekken(input);
  if (!tekken.ok()) return tekken.status();
  return std::move(tekken->tokenizer);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto loaded = load(input);
  if (!loaded.ok()) return 0;
  const quire::Tokenizer& tokenizer = **loaded;
  constexpr size_t kMaxText = 4096;
  for (const std::string_view text :
       {std::string_view("Hello  w\xC3\xB6rld \xE6\xBC\xA2 123456 \xFF\n"),
        input.substr(0, kMaxText)}) {
    const auto ids = tokenizer.encode(text);
    for (const quire::TokenId id : ids) {
      if (id < 0 || id >= tokenizer.vocab_size()) std::abort();
    }
    if (!quire::is_valid_utf8(tokenizer.decode(ids))) std::abort();
  }
  return 0;
}
