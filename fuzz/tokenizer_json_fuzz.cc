// The input is a tokenizer.json (up to the first zero byte) and a text. The result must be an
// error, or a tokenizer whose ids are in range and whose streamed text is well-formed.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tokenizer/detokenizer.h"
#include "tokenizer/json/tokenizer_json.h"
#include "tokenizer/unicode/unicode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = input.find('\0') == input.npos ? size : input.find('\0');
  const auto loaded = quire::tokenizer_from_json(input.substr(0, end));
  if (!loaded.ok()) return 0;
  const quire::Tokenizer& tokenizer = **loaded;
  constexpr size_t kMaxText = 4096;
  const std::string_view text = input.substr(end < size ? end + 1 : end).substr(0, kMaxText);
  const auto ids = tokenizer.encode(text);
  quire::IncrementalDetokenizer detokenizer(tokenizer);
  for (const quire::TokenId id : ids) {
    // A post-processor may name ids that the vocabulary does not have; they decode to nothing.
    if (id < 0) std::abort();
    if (!quire::is_valid_utf8(detokenizer.push(id))) std::abort();
    static_cast<void>(tokenizer.token_bytes(id));
  }
  if (!quire::is_valid_utf8(detokenizer.finish())) std::abort();
  if (!quire::is_valid_utf8(tokenizer.decode(ids, {.skip_special_tokens = true}))) std::abort();
  return 0;
}
