#include "engine/structured/forced_tokens.h"

#include <string>

#include "base/utf8.h"

namespace quire {

std::vector<TokenId> tokens_after(const Tokenizer& tokenizer, std::string_view before,
                                  std::string_view text) {
  text.remove_suffix(incomplete_utf8_suffix(text));
  if (text.empty() || !is_valid_utf8(before)) return {};
  const std::string joined = std::string(before) + std::string(text);
  std::vector<TokenId> ids =
      tokenizer.encode(joined, {.add_special_tokens = false, .parse_special = false});
  // Some tokenizers put a space in front of a text.
  std::string cut;
  const std::string after_blank = ' ' + std::string(before);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (cut == before || cut == after_blank) {
      ids.erase(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(i));
      return ids;
    }
    if (cut.size() > before.size()) break;
    cut += tokenizer.token_bytes(ids[i]);
  }
  return {};
}

}  // namespace quire
