#include "tokenizer/stages/added_tokens.h"

#include <algorithm>

#include "tokenizer/model/vocab.h"
#include "tokenizer/unicode/unicode.h"

namespace quire {
namespace {

// Returns the class of the last character of `text`, which is not empty.
uint16_t last_class(std::string_view text, size_t& size) {
  size = 1;
  while (size < 4 && size < text.size() &&
         (static_cast<unsigned char>(text[text.size() - size]) & 0xC0) == 0x80) {
    ++size;
  }
  return char_class(decode_utf8(text.substr(text.size() - size)).value);
}

bool ends_in_word(std::string_view text) {
  size_t size = 0;
  return !text.empty() && (last_class(text, size) & kWord) != 0;
}

bool starts_with_word(std::string_view text) {
  return !text.empty() && (char_class(decode_utf8(text).value) & kWord) != 0;
}

size_t skip_space_back(std::string_view text, size_t from, size_t limit) {
  while (from > limit) {
    size_t size = 0;
    if ((last_class(text.substr(0, from), size) & kSpace) == 0) break;
    from -= size;
  }
  return std::max(from, limit);
}

size_t skip_space(std::string_view text, size_t from) {
  while (from < text.size()) {
    const CodePoint c = decode_utf8(text.substr(from));
    if ((char_class(c.value) & kSpace) == 0) break;
    from += c.size;
  }
  return from;
}

}  // namespace

Status AddedTokens::add(AddedToken token) {
  if (token.id < 0 || token.id >= Vocab::kMaxSize) {
    return invalid_argument("added token '{}': expected an id in [0, {}), got {}", token.content,
                            Vocab::kMaxSize, token.id);
  }
  const auto same = by_content_.find(token.content);
  if (same != by_content_.end()) {
    by_id_.erase(tokens_[same->second].id);
    by_id_[token.id] = same->second;
    tokens_[same->second] = std::move(token);
    return Status();
  }
  by_id_[token.id] = tokens_.size();
  by_content_[token.content] = tokens_.size();
  tokens_.push_back(std::move(token));
  return Status();
}

void AddedTokens::freeze(const Normalizer* normalizer) {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    AddedToken& token = tokens_[i];
    token.piece = token.content;
    if (token.content.empty()) continue;
    if (!token.normalized) {
      raw_.insert(token.content, static_cast<uint32_t>(i));
      continue;
    }
    if (normalizer != nullptr) token.piece = normalizer->normalize(token.content);
    if (!token.piece.empty()) normalized_.insert(token.piece, static_cast<uint32_t>(i));
  }
}

const AddedToken* AddedTokens::find(TokenId id) const {
  const auto it = by_id_.find(id);
  return it == by_id_.end() ? nullptr : &tokens_[it->second];
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const auto it = by_content_.find(std::string(content));
  return it == by_content_.end() ? nullptr : &tokens_[it->second];
}

bool AddedTokens::is_special(TokenId id) const {
  const AddedToken* token = find(id);
  return token != nullptr && token->special;
}

void AddedTokens::split(std::string_view text, Pass pass, bool match_special,
                        std::vector<Segment>& segments) const {
  const ByteTrie& trie = this->trie(pass);
  size_t done = 0;
  for (size_t pos = 0; pos < text.size();) {
    if (!trie.can_start(text[pos])) {
      ++pos;
      continue;
    }
    const auto match = trie.longest_prefix(text.substr(pos));
    if (match.length == 0) {
      ++pos;
      continue;
    }
    size_t begin = pos;
    size_t end = pos + match.length;
    pos = end;
    const AddedToken& token = tokens_[match.value];
    if (token.special && !match_special) continue;
    if (token.single_word &&
        (ends_in_word(text.substr(0, begin)) || starts_with_word(text.substr(end)))) {
      continue;
    }
    if (token.lstrip) begin = skip_space_back(text, begin, done);
    if (token.rstrip) end = skip_space(text, end);
    if (begin > done) segments.push_back({text.substr(done, begin - done), -1});
    // As in the reference, a token is dropped if a stripping token before it took all of its text.
    if (begin < end) segments.push_back({{}, token.id});
    done = end;
  }
  if (done < text.size()) segments.push_back({text.substr(done), -1});
}

}  // namespace quire
