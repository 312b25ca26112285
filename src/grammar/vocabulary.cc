#include "grammar/vocabulary.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "grammar/rules/encoding.h"
#include "tokenizer/tokenizer.h"

namespace quire::grammar {
namespace {

// Returns whether an added token is a mark of replies, such as <tool_call> or [ARGS]. Many
// vocabularies have marks as tokens that are not special. The parser of a reply reads the token as
// the mark, and the same characters in other tokens as text, so a grammar must require the token.
bool is_mark(std::string_view text) {
  return text.size() >= 3 && ((text.front() == '<' && text.back() == '>') ||
                              (text.front() == '[' && text.back() == ']'));
}

// Returns the bytes that a grammar sees; empty if no grammar uses the token.
std::string bytes_of(const Tokenizer& tokenizer, TokenId id) {
  std::string bytes = tokenizer.token_bytes(id);
  if (tokenizer.is_special(id) || (tokenizer.is_added(id) && is_mark(bytes))) {
    return kSpecialTokenMark + bytes;
  }
  // Byte-level vocabularies have a token for every byte, also for bytes that never occur in text.
  if (bytes.find(kSpecialTokenMark) != std::string::npos) bytes.clear();
  return bytes;
}

VocabularyParts parts_of(const Tokenizer& tokenizer, std::vector<TokenId> eos_ids,
                         int32_t padded_size) {
  VocabularyParts parts;
  parts.token_bytes.resize(static_cast<size_t>(tokenizer.vocab_size()));
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    parts.token_bytes[id] = bytes_of(tokenizer, id);
  }
  parts.eos_ids = std::move(eos_ids);
  parts.padded_size = std::max(padded_size, tokenizer.vocab_size());
  return parts;
}

}  // namespace

Vocabulary::Vocabulary(VocabularyParts parts)
    : parts_(std::move(parts)), masks_(std::make_unique<MaskCache>(parts_.mask_cache_bytes)) {
  QUIRE_CHECK(static_cast<size_t>(parts_.padded_size) >= parts_.token_bytes.size(),
              "padded_size {} is below the {} tokens", parts_.padded_size,
              parts_.token_bytes.size());
  std::erase_if(parts_.eos_ids, [&](TokenId id) { return id < 0 || id >= parts_.padded_size; });
  for (const TokenId id : parts_.eos_ids) {
    if (static_cast<size_t>(id) < parts_.token_bytes.size()) parts_.token_bytes[id].clear();
  }
  for (std::string& bytes : parts_.token_bytes) {
    if (bytes.size() >= kCountHorizon) bytes.clear();
  }
  build();
}

Vocabulary::Vocabulary(const Tokenizer& tokenizer, std::vector<TokenId> eos_ids,
                       int32_t padded_size)
    : Vocabulary(parts_of(tokenizer, std::move(eos_ids), padded_size)) {}

void Vocabulary::build() {
  static_assert(kCountHorizon <= 256, "heights are bytes");
  const auto& bytes = parts_.token_bytes;
  for (size_t id = 0; id < bytes.size(); ++id) {
    if (!bytes[id].empty()) tokens_.push_back(static_cast<TokenId>(id));
  }
  std::sort(tokens_.begin(), tokens_.end(), [&](TokenId a, TokenId b) {
    return bytes[a] != bytes[b] ? bytes[a] < bytes[b] : a < b;
  });
  trie_.push_back({});
  std::vector<uint32_t> path{0};  // the node of every prefix of the current token
  const auto close = [&](size_t depth) {
    for (; path.size() > depth + 1; path.pop_back()) {
      const uint32_t node = path.back(), parent = path[path.size() - 2];
      trie_[node].skip = static_cast<uint32_t>(trie_.size());
      bytes_below_.resize(trie_.size());
      bytes_below_[parent].add(bytes_below_[node]);
      bytes_below_[parent].add(trie_[node].byte);
      const auto height = static_cast<uint8_t>(trie_[node].height + 1);
      trie_[parent].height = std::max(trie_[parent].height, height);
    }
  };
  std::string_view previous;
  for (uint32_t i = 0; i < tokens_.size(); ++i) {
    const std::string_view token = bytes[tokens_[i]];
    const auto differs =
        std::mismatch(previous.begin(), previous.end(), token.begin(), token.end());
    close(static_cast<size_t>(differs.first - previous.begin()));
    for (size_t depth = path.size(); depth <= token.size(); ++depth) {
      path.push_back(static_cast<uint32_t>(trie_.size()));
      trie_.push_back({.first_token = i,
                       .depth = static_cast<uint16_t>(depth),
                       .byte = static_cast<uint8_t>(token[depth - 1])});
    }
    max_depth_ = std::max(max_depth_, token.size());
    previous = token;
  }
  close(0);
  // A node's tokens are those between its own first_token and the next node's. Inner nodes on the
  // way to a token share its first_token, so they have no tokens.
  trie_[0].skip = static_cast<uint32_t>(trie_.size());
  trie_.push_back({.first_token = static_cast<uint32_t>(tokens_.size())});
}

std::string_view Vocabulary::token_bytes(TokenId id) const {
  if (id < 0 || static_cast<size_t>(id) >= parts_.token_bytes.size()) return {};
  return parts_.token_bytes[id];
}

std::vector<std::string> Vocabulary::special_tokens() const {
  std::vector<std::string> out;
  for (const std::string& bytes : parts_.token_bytes) {
    if (bytes.size() > 1 && bytes[0] == kSpecialTokenMark) out.push_back(bytes.substr(1));
  }
  return out;
}

bool Vocabulary::is_eos(TokenId id) const {
  return std::find(parts_.eos_ids.begin(), parts_.eos_ids.end(), id) != parts_.eos_ids.end();
}

}  // namespace quire::grammar
