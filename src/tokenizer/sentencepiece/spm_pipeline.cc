#include "tokenizer/sentencepiece/spm_pipeline.h"

#include "tokenizer/model/bpe.h"
#include "tokenizer/model/unigram.h"

namespace quire {
namespace {

using Type = SentencePieceType;
using Piece = SentencePieceProto::Piece;

bool is_text_piece(const Piece& piece) {
  return piece.type == Type::kNormal || piece.type == Type::kUserDefined;
}

Result<std::unique_ptr<Normalizer>> make_normalizer(const SpmPipeline& spm, bool dummy_prefix) {
  SentencePieceNormalizerOptions options;
  options.add_dummy_prefix = dummy_prefix;
  options.remove_extra_whitespaces = spm.remove_extra_whitespaces;
  options.escape_whitespaces = spm.escape_whitespaces;
  options.whitespace_as_suffix = spm.whitespace_as_suffix;
  if (!spm.charsmap.empty()) {
    QUIRE_ASSIGN_OR_RETURN(options.charsmap, Charsmap::parse(spm.charsmap));
  }
  for (size_t id = 0; id < spm.pieces.size(); ++id) {
    const Piece& piece = spm.pieces[id];
    if (piece.type == Type::kUserDefined && !piece.text.empty() && !spm.user_defined_are_added) {
      options.protected_pieces.insert(piece.text, static_cast<uint32_t>(id));
    }
  }
  return make_sentencepiece_normalizer(std::move(options));
}

// Makes a vocabulary of all pieces in id order. A piece that occurs again gets no id, so that the
// first one keeps its name.
Result<Vocab> make_vocab(const std::vector<Piece>& pieces) {
  Vocab vocab;
  vocab.reserve(pieces.size(), pieces.size() * 8);
  for (size_t id = 0; id < pieces.size(); ++id) {
    if (id > 0 && vocab.find(pieces[id].text)) continue;
    QUIRE_RETURN_IF_ERROR(vocab.add(pieces[id].text, static_cast<int64_t>(id)));
  }
  return vocab;
}

Result<std::unique_ptr<Model>> make_bpe(const SpmPipeline& spm, Vocab vocab,
                                        std::optional<TokenId> unk_id) {
  std::vector<float> scores(spm.pieces.size());
  std::vector<bool> mergeable(spm.pieces.size());
  BpeOptions options{.unk_id = unk_id, .fuse_unk = true, .byte_fallback = spm.byte_fallback};
  for (size_t id = 0; id < spm.pieces.size(); ++id) {
    scores[id] = spm.pieces[id].score;
    mergeable[id] = spm.pieces[id].type == Type::kNormal;
    if (spm.pieces[id].type == Type::kUserDefined && !spm.user_defined_are_added) {
      options.user_defined.push_back(static_cast<TokenId>(id));
    }
  }
  const auto merges = merges_from_scores(vocab, scores, mergeable);
  QUIRE_ASSIGN_OR_RETURN(auto model, BpeModel::make(std::move(vocab), merges, std::move(options)));
  return std::unique_ptr<Model>(std::move(model));
}

Result<std::unique_ptr<Model>> make_unigram(const SpmPipeline& spm, Vocab vocab,
                                            std::optional<TokenId> unk_id) {
  std::vector<double> scores(static_cast<size_t>(vocab.size()));
  UnigramOptions options{
      .unk_id = unk_id, .byte_fallback = spm.byte_fallback, .single_precision = true};
  options.is_usable.resize(scores.size());
  for (size_t id = 0; id < scores.size(); ++id) {
    scores[id] = static_cast<double>(spm.pieces[id].score);
    options.is_usable[id] = is_text_piece(spm.pieces[id]);
    if (spm.pieces[id].type == Type::kUserDefined) {
      options.user_defined.push_back(static_cast<TokenId>(id));
    }
  }
  QUIRE_ASSIGN_OR_RETURN(
      auto model, UnigramModel::make(std::move(vocab), std::move(scores), std::move(options)));
  return std::unique_ptr<Model>(std::move(model));
}

Status add_special_pieces(const SpmPipeline& spm, const Vocab& vocab, TokenizerParts& parts) {
  for (size_t id = 0; id < spm.pieces.size(); ++id) {
    const Piece& piece = spm.pieces[id];
    const bool special = piece.type == Type::kControl || piece.type == Type::kUnknown;
    const bool added = piece.type == Type::kUserDefined && spm.user_defined_are_added;
    if ((!special && !added) || piece.text.empty() || !vocab.contains(static_cast<TokenId>(id))) {
      continue;
    }
    QUIRE_RETURN_IF_ERROR(parts.added_tokens.add(
        {.id = static_cast<TokenId>(id), .content = piece.text, .special = special}));
  }
  return Status();
}

}  // namespace

Result<TokenizerParts> make_spm_parts(SpmPipeline spm) {
  TokenizerParts parts;
  QUIRE_ASSIGN_OR_RETURN(parts.normalizer, make_normalizer(spm, spm.add_dummy_prefix));
  if (spm.add_dummy_prefix && !spm.prefix_after_added_tokens) {
    QUIRE_ASSIGN_OR_RETURN(parts.inner_normalizer, make_normalizer(spm, false));
  }
  for (size_t id = 0; id < spm.pieces.size() && !parts.unk_id; ++id) {
    if (spm.pieces[id].type == Type::kUnknown) parts.unk_id = static_cast<TokenId>(id);
  }
  QUIRE_ASSIGN_OR_RETURN(Vocab vocab, make_vocab(spm.pieces));
  if (parts.unk_id && !vocab.contains(*parts.unk_id)) parts.unk_id.reset();
  QUIRE_RETURN_IF_ERROR(add_special_pieces(spm, vocab, parts));
  if (spm.is_bpe) {
    QUIRE_ASSIGN_OR_RETURN(parts.model, make_bpe(spm, std::move(vocab), parts.unk_id));
  } else {
    QUIRE_ASSIGN_OR_RETURN(parts.model, make_unigram(spm, std::move(vocab), parts.unk_id));
  }
  using Kind = DecoderStep::Kind;
  parts.decoder_steps.push_back(
      {.kind = Kind::kReplace, .text = " ", .pattern = {.literal = "\xE2\x96\x81", .regex = {}}});
  parts.decoder_steps.push_back({.kind = Kind::kByteFallback});
  parts.decoder_steps.push_back({.kind = Kind::kFuse});
  if (spm.add_dummy_prefix) {
    const int64_t at_start = spm.whitespace_as_suffix ? 0 : 1;
    parts.decoder_steps.push_back(
        {.kind = Kind::kStrip, .text = " ", .start = at_start, .stop = 1 - at_start});
  }
  return parts;
}

}  // namespace quire
