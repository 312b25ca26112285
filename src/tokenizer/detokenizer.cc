#include "tokenizer/detokenizer.h"

namespace quire {

IncrementalDetokenizer::IncrementalDetokenizer(const Tokenizer& tokenizer, DecodeOptions options)
    : tokenizer_(tokenizer),
      options_(options),
      stream_(tokenizer.decoder(), DecodeStream::Mode::kStreaming) {}

void IncrementalDetokenizer::prime(std::span<const TokenId> prompt_ids) {
  // The state after a prompt depends on its first tokens (is there any text?) and on its last ones.
  constexpr size_t kContext = 64;
  std::string dropped;
  for (size_t i = 0; i < prompt_ids.size(); ++i) {
    const bool near_end = i < kContext || i + kContext >= prompt_ids.size();
    if (near_end) push_into(prompt_ids[i], dropped);
  }
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
  if (!piece.empty()) stream_.push(piece, out);
}

}  // namespace quire
