#include "tokenizer/detokenizer.h"

#include <string_view>
#include <utility>

namespace quire {
namespace {

// If out[begin..] is spaces and then `piece`, removes the spaces.
void erase_spaces_before(std::string_view piece, size_t begin, std::string& out) {
  const std::string_view added = std::string_view(out).substr(begin);
  if (!added.ends_with(piece)) return;
  const size_t num_before = added.size() - piece.size();
  if (added.find_first_not_of(' ') >= num_before) out.erase(begin, num_before);
}

}  // namespace

IncrementalDetokenizer::IncrementalDetokenizer(const Tokenizer& tokenizer,
                                               DetokenizerOptions options)
    : tokenizer_(tokenizer),
      options_(options),
      stream_(tokenizer.decoder(), DecodeStream::Mode::kStreaming) {}

void IncrementalDetokenizer::prime(std::span<const TokenId> prompt_ids) {
  // Priming uses only so many tokens of each end of a prompt: the state depends on its first
  // tokens, which say whether there is any text, and on its last ones.
  constexpr size_t kContext = 64;
  std::string dropped;
  for (size_t i = 0; i < prompt_ids.size(); ++i) {
    const bool near_end = i < kContext || i + kContext >= prompt_ids.size();
    if (near_end) push_into(prompt_ids[i], dropped);
  }
  after_added_ = false;
}

std::string IncrementalDetokenizer::push(TokenId id) {
  std::string out;
  push_into(id, out);
  return out;
}

std::string IncrementalDetokenizer::finish() {
  std::string out;
  stream_.finish(out);
  return out;
}

void IncrementalDetokenizer::push_into(TokenId id, std::string& out) {
  if (options_.skip_special_tokens && tokenizer_.is_special(id)) return;
  const std::string_view piece = tokenizer_.token_to_piece(id);
  if (piece.empty()) return;
  const size_t begin = out.size();
  stream_.push(piece, out);
  if (options_.spaces_between_special_tokens) return;
  const bool added = tokenizer_.is_added(id);
  if (std::exchange(after_added_, added) && added) erase_spaces_before(piece, begin, out);
}

}  // namespace quire
