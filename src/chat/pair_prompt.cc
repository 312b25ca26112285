#include "chat/pair_prompt.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <initializer_list>

namespace quire {
namespace {

boost::json::array messages_of(const TextPair& pair) {
  boost::json::array messages;
  const auto add = [&](std::string_view role, std::string_view content) {
    messages.push_back(boost::json::object{{"role", boost::json::string(role)},
                                           {"content", boost::json::string(content)}});
  };
  if (!pair.instruction.empty()) add("system", pair.instruction);
  add("query", pair.query);
  add("document", pair.document);
  return messages;
}

bool has_quoted(std::string_view text, std::string_view word) {
  for (const char quote : {'"', '\''}) {
    if (text.find(quote + std::string(word) + quote) != text.npos) return true;
  }
  return false;
}

}  // namespace

bool writes_pairs(std::string_view template_source) {
  return has_quoted(template_source, "query") && has_quoted(template_source, "document");
}

Result<std::vector<TokenId>> encode_pair(const TextPair& pair, const PairCodec& codec) {
  QUIRE_ASSIGN_OR_RETURN(const std::string prompt, codec.render(messages_of(pair)));
  QUIRE_ASSIGN_OR_RETURN(std::vector<TokenId> ids, codec.encode(prompt));
  const auto excess_of = [&] { return std::ssize(ids) - pair.max_tokens; };
  if (pair.max_tokens == 0 || excess_of() <= 0) return ids;
  QUIRE_ASSIGN_OR_RETURN(std::vector<TokenId> document, codec.encode(pair.document));
  // A text that was cut may have other tokens at its end, so one cut is not always enough.
  while (excess_of() > 0 && !document.empty()) {
    document.resize(static_cast<size_t>(std::max<int64_t>(std::ssize(document) - excess_of(), 0)));
    const std::string text = codec.decode(document);
    TextPair shorter = pair;
    shorter.document = text;
    QUIRE_ASSIGN_OR_RETURN(const std::string cut, codec.render(messages_of(shorter)));
    QUIRE_ASSIGN_OR_RETURN(ids, codec.encode(cut));
  }
  return ids;
}

}  // namespace quire
