#include "tokenizer/sentencepiece/sentencepiece_model.h"

#include <fmt/format.h>

#include "tokenizer/json/hf_config.h"
#include "tokenizer/model/bpe.h"
#include "tokenizer/sentencepiece/sentencepiece_proto.h"
#include "tokenizer/sentencepiece/spm_pipeline.h"

namespace quire {
namespace {

using Type = SentencePieceType;

Result<SpmPipeline> to_pipeline(SentencePieceProto proto) {
  SpmPipeline spm;
  if (proto.algorithm == SentencePieceProto::Algorithm::kWord ||
      proto.algorithm == SentencePieceProto::Algorithm::kChar) {
    return unimplemented("model type {} is not supported; BPE and unigram are",
                         proto.algorithm == SentencePieceProto::Algorithm::kWord ? "word" : "char");
  }
  spm.is_bpe = proto.algorithm == SentencePieceProto::Algorithm::kBpe;
  spm.byte_fallback = proto.byte_fallback;
  spm.add_dummy_prefix = proto.add_dummy_prefix;
  spm.remove_extra_whitespaces = proto.remove_extra_whitespaces;
  spm.escape_whitespaces = proto.escape_whitespaces;
  spm.whitespace_as_suffix = proto.whitespace_as_suffix;
  spm.charsmap = std::move(proto.charsmap);
  spm.pieces.reserve(proto.pieces.size());
  for (auto& piece : proto.pieces) {
    spm.pieces.push_back({std::move(piece.text), piece.score, piece.type});
  }
  return spm;
}

Status add_bos_eos(const HfTokenizerConfig& config, TokenizerParts& parts) {
  const bool add_bos = config.add_bos_token.value_or(parts.bos_id.has_value());
  const bool add_eos = config.add_eos_token.value_or(!parts.bos_id.has_value());
  if (add_bos && parts.bos_id) parts.prefix_ids.push_back(*parts.bos_id);
  if (add_eos && parts.eos_id) parts.suffix_ids.push_back(*parts.eos_id);
  return Status();
}

Status add_sentinels(int64_t count, TokenizerParts& parts) {
  const TokenId first_id = parts.model->vocab().size();
  for (int64_t i = 0; i < count; ++i) {
    AddedToken token{.content = fmt::format("<extra_id_{}>", i), .special = true};
    const bool is_there = parts.model->vocab().find(token.content).has_value() ||
                          parts.added_tokens.find(token.content) != nullptr;
    if (is_there) continue;
    token.id = first_id + static_cast<TokenId>(count - 1 - i);
    QUIRE_RETURN_IF_ERROR(parts.added_tokens.add(std::move(token)));
  }
  return Status();
}

Result<TokenizerParts> make_parts(std::string_view model_bytes, const HfTokenizerConfig& config,
                                  const std::vector<AddedToken>& added_tokens, bool is_t5) {
  QUIRE_ASSIGN_OR_RETURN(SentencePieceProto proto, parse_sentencepiece_proto(model_bytes));
  const std::string bos = proto.bos_piece;
  const std::string eos = proto.eos_piece;
  const std::string pad = proto.pad_piece;
  QUIRE_ASSIGN_OR_RETURN(SpmPipeline spm, to_pipeline(std::move(proto)));
  spm.prefix_after_added_tokens = config.legacy.value_or(is_t5);
  QUIRE_ASSIGN_OR_RETURN(TokenizerParts parts, make_spm_parts(std::move(spm)));
  const Vocab& vocab = parts.model->vocab();
  parts.bos_id = vocab.find(bos);
  parts.eos_id = vocab.find(eos);
  parts.pad_id = vocab.find(pad);
  for (AddedToken token : added_tokens) {
    token.id = vocab.find(token.content).value_or(token.id);
    QUIRE_RETURN_IF_ERROR(parts.added_tokens.add(std::move(token)));
  }
  QUIRE_RETURN_IF_ERROR(add_sentinels(config.extra_ids, parts));
  QUIRE_RETURN_IF_ERROR(apply_hf_config(config, parts));
  QUIRE_RETURN_IF_ERROR(add_bos_eos(config, parts));
  return parts;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> tokenizer_from_sentencepiece(
    std::string_view model_bytes, const SentencePieceOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const HfTokenizerConfig config,
                         parse_hf_tokenizer_config(options.config_json));
  std::vector<AddedToken> added_tokens;
  QUIRE_RETURN_IF_ERROR(parse_added_tokens_json(options.added_tokens_json, added_tokens));
  auto parts = make_parts(model_bytes, config, added_tokens, options.file_name == "spiece.model");
  if (!parts.ok()) return parts.status().with_context(options.file_name);
  return std::make_unique<Tokenizer>(std::move(*parts));
}

}  // namespace quire
