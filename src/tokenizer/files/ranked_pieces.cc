#include "tokenizer/files/ranked_pieces.h"

#include <memory>
#include <utility>
#include <vector>

#include "tokenizer/model/bpe.h"
#include "tokenizer/model/byte_level.h"

namespace quire {
namespace {

// The limit is far longer than any trained piece. It keeps the search for cuts linear in the file.
constexpr size_t kMaxPieceBytes = 4096;

// Returns the merges: any two pieces whose concatenation is a piece may merge, at the rank of the
// result.
std::vector<BpeModel::Merge> merges_from_ranks(const Vocab& by_rank, TokenId first_id) {
  std::vector<BpeModel::Merge> merges;
  for (TokenId rank = 0; rank < by_rank.size(); ++rank) {
    const std::string_view piece = by_rank.piece(rank);
    for (size_t cut = 1; cut < piece.size(); ++cut) {
      const auto left = by_rank.find(piece.substr(0, cut));
      if (!left) continue;
      const auto right = by_rank.find(piece.substr(cut));
      if (!right) continue;
      merges.push_back(
          {first_id + *left, first_id + *right, first_id + rank, static_cast<uint32_t>(rank)});
    }
  }
  return merges;
}

}  // namespace

void RankedPieces::reserve(size_t count, size_t bytes) { by_rank_.reserve(count, bytes); }

Status RankedPieces::add(std::string_view bytes, int64_t rank) {
  if (bytes.empty() || bytes.size() > kMaxPieceBytes) {
    return invalid_argument("expected a piece of 1 to {} bytes, got {}", kMaxPieceBytes,
                            bytes.size());
  }
  if (by_rank_.find(bytes)) return invalid_argument("a piece comes twice");
  return by_rank_.add(bytes, rank);
}

Result<TokenizerParts> RankedPieces::make_parts(std::string_view pattern, TokenId first_id) && {
  Vocab vocab;
  vocab.reserve(static_cast<size_t>(size()), static_cast<size_t>(size()) * 8);
  for (TokenId rank = 0; rank < size(); ++rank) {
    if (!by_rank_.contains(rank)) continue;
    QUIRE_RETURN_IF_ERROR(
        vocab.add(byte_level_encode(by_rank_.piece(rank)), int64_t{first_id} + rank));
  }
  const auto merges = merges_from_ranks(by_rank_, first_id);
  by_rank_ = Vocab();

  TokenizerParts parts;
  TextPattern words;
  QUIRE_ASSIGN_OR_RETURN(words.regex, Regex::compile(pattern));
  std::vector<std::unique_ptr<PreTokenizer>> steps;
  steps.push_back(make_split_pre_tokenizer(std::move(words), SplitBehavior::kIsolated, false));
  parts.pre_tokenizer = make_sequence_pre_tokenizer(std::move(steps));
  QUIRE_ASSIGN_OR_RETURN(parts.model, BpeModel::make(std::move(vocab), merges,
                                                     {.ignore_merges = true, .raw_bytes = true}));
  parts.decoder_steps.push_back({.kind = DecoderStep::Kind::kByteLevel});
  return parts;
}

}  // namespace quire
