#include "tokenizer/files/gguf_vocab.h"

#include <utility>

#include "tokenizer/files/gguf_pre.h"
#include "tokenizer/model/bpe.h"
#include "tokenizer/model/merges.h"
#include "tokenizer/model/wordpiece.h"
#include "tokenizer/sentencepiece/spm_pipeline.h"
#include "tokenizer/unicode/unicode.h"

namespace quire {
namespace {

constexpr int32_t kNormal = 1;
constexpr int32_t kUnknown = 2;
constexpr int32_t kControl = 3;
constexpr int32_t kUserDefined = 4;
constexpr int32_t kByte = 6;

Status check_and_repair(GgufVocab& v) {
  const size_t n = v.tokens.size();
  if (n == 0 || n > static_cast<size_t>(Vocab::kMaxSize)) {
    return data_loss("expected 1 to {} tokens, got {}", Vocab::kMaxSize, n);
  }
  if (!v.token_types.empty() && v.token_types.size() != n) {
    return data_loss("expected {} token types, got {}", n, v.token_types.size());
  }
  if (!v.scores.empty() && v.scores.size() != n) {
    return data_loss("expected {} scores, got {}", n, v.scores.size());
  }
  v.token_types.resize(n, kNormal);
  v.scores.resize(n, 0.0f);
  for (std::string& token : v.tokens) {
    if (!is_valid_utf8(token)) token = to_valid_utf8(token);
  }
  for (int32_t& type : v.token_types) {
    if (type < kNormal || type > kByte) type = kNormal;
  }
  return Status();
}

// Returns nullopt for an id that is absent or outside the vocabulary (files write -1 for "none").
std::optional<TokenId> checked_id(std::optional<int64_t> id, const GgufVocab& v) {
  if (!id || *id < 0 || static_cast<size_t>(*id) >= v.tokens.size()) return std::nullopt;
  return static_cast<TokenId>(*id);
}

Result<Vocab> make_vocab(const GgufVocab& v) {
  Vocab vocab;
  vocab.reserve(v.tokens.size(), v.tokens.size() * 8);
  for (size_t id = 0; id < v.tokens.size(); ++id) {
    if (vocab.find(v.tokens[id])) continue;  // of a repeated piece, the first keeps its name
    QUIRE_RETURN_IF_ERROR(vocab.add(v.tokens[id], static_cast<int64_t>(id)));
  }
  return vocab;
}

// Control and unknown tokens are special; user-defined ones are always found in a text.
Status add_special_tokens(const GgufVocab& v, TokenizerParts& parts) {
  for (size_t id = 0; id < v.tokens.size(); ++id) {
    const int32_t type = v.token_types[id];
    const bool special = type == kControl || type == kUnknown;
    if ((!special && type != kUserDefined) || v.tokens[id].empty()) continue;
    if (!parts.model->vocab().contains(static_cast<TokenId>(id))) continue;
    QUIRE_RETURN_IF_ERROR(parts.added_tokens.add(
        {.id = static_cast<TokenId>(id), .content = v.tokens[id], .special = special}));
  }
  return Status();
}

// Makes the parts for tokenizer.ggml.model = "llama" or "t5".
Result<TokenizerParts> make_spm(GgufVocab& v, bool is_bpe) {
  SpmPipeline spm;
  spm.is_bpe = is_bpe;
  spm.byte_fallback = is_bpe;
  spm.add_dummy_prefix = v.add_space_prefix.value_or(true);
  spm.remove_extra_whitespaces = v.remove_extra_whitespaces.value_or(!is_bpe);
  spm.user_defined_are_added = true;
  spm.charsmap = std::move(v.precompiled_charsmap);
  spm.pieces.reserve(v.tokens.size());
  for (size_t id = 0; id < v.tokens.size(); ++id) {
    if (v.scores[id] != v.scores[id]) return data_loss("score {} is not a number", id);
    spm.pieces.push_back(
        {v.tokens[id], v.scores[id], static_cast<SentencePieceType>(v.token_types[id])});
    spm.byte_fallback |= v.token_types[id] == kByte;
  }
  return make_spm_parts(std::move(spm));
}

Result<std::vector<BpeModel::Merge>> read_merges(const GgufVocab& v, const Vocab& vocab) {
  std::vector<BpeModel::Merge> merges;
  merges.reserve(v.merges.size());
  for (const std::string& line : v.merges) {
    QUIRE_ASSIGN_OR_RETURN(const BpeModel::Merge merge,
                           parse_merge_line(line, static_cast<uint32_t>(merges.size()), vocab));
    merges.push_back(merge);
  }
  return merges;
}

Result<std::unique_ptr<PreTokenizer>> make_pre_tokenizer(
    const std::vector<std::string_view>& patterns) {
  std::vector<std::unique_ptr<PreTokenizer>> steps;
  for (const std::string_view text : patterns) {
    TextPattern pattern;
    QUIRE_ASSIGN_OR_RETURN(pattern.regex, Regex::compile(text));
    steps.push_back(make_split_pre_tokenizer(std::move(pattern), SplitBehavior::kIsolated, false));
  }
  return make_sequence_pre_tokenizer(std::move(steps));
}

// Makes the parts for tokenizer.ggml.model = "gpt2".
Result<TokenizerParts> make_byte_level(const GgufVocab& v, bool& add_bos) {
  const auto pre = gguf_pre_tokenizer(v.pre);
  if (!pre) return unimplemented("tokenizer.ggml.pre: unknown pre-tokenizer '{}'", v.pre);
  add_bos = pre->add_bos;
  QUIRE_ASSIGN_OR_RETURN(Vocab vocab, make_vocab(v));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<BpeModel::Merge> merges, read_merges(v, vocab));
  TokenizerParts parts;
  QUIRE_ASSIGN_OR_RETURN(parts.pre_tokenizer, make_pre_tokenizer(pre->patterns));
  QUIRE_ASSIGN_OR_RETURN(parts.model,
                         BpeModel::make(std::move(vocab), merges,
                                        {.ignore_merges = pre->ignore_merges, .raw_bytes = true}));
  QUIRE_RETURN_IF_ERROR(add_special_tokens(v, parts));
  parts.decoder_steps.push_back({.kind = DecoderStep::Kind::kByteLevel});
  return parts;
}

// Returns whether the model is a BPE of characters that writes a space as U+2581.
bool is_metaspace_bpe(const GgufVocab& v) {
  return v.model == "gemma4" ||
         (v.model == "gpt2" &&
          (v.pre == "gemma4" || v.pre == "granite-embed-multi-311m" || v.pre == "sarvam-moe"));
}

Result<TokenizerParts> make_metaspace_bpe(const GgufVocab& v) {
  QUIRE_ASSIGN_OR_RETURN(Vocab vocab, make_vocab(v));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<BpeModel::Merge> merges, read_merges(v, vocab));
  TokenizerParts parts;
  parts.normalizer = make_replace_normalizer({.literal = " ", .regex = {}}, "\xE2\x96\x81");
  QUIRE_ASSIGN_OR_RETURN(parts.pre_tokenizer, make_pre_tokenizer({kGgufLines}));
  QUIRE_ASSIGN_OR_RETURN(parts.model, BpeModel::make(std::move(vocab), merges,
                                                     {.unk_id = checked_id(v.unknown_token_id, v),
                                                      .fuse_unk = true,
                                                      .byte_fallback = true}));
  QUIRE_RETURN_IF_ERROR(add_special_tokens(v, parts));
  using Kind = DecoderStep::Kind;
  parts.decoder_steps.push_back(
      {.kind = Kind::kReplace, .text = " ", .pattern = {.literal = "\xE2\x96\x81", .regex = {}}});
  parts.decoder_steps.push_back({.kind = Kind::kByteFallback});
  parts.decoder_steps.push_back({.kind = Kind::kFuse});
  return parts;
}

// Makes the parts for "bert", whose pieces begin with U+2581 at the start of a word.
Result<TokenizerParts> make_bert(const GgufVocab& v) {
  QUIRE_ASSIGN_OR_RETURN(Vocab vocab, make_vocab(v));
  TokenizerParts parts;
  parts.normalizer = make_bert_normalizer({});
  parts.pre_tokenizer = make_bert_pre_tokenizer();
  WordPieceOptions options;
  options.unk_id = checked_id(v.unknown_token_id, v);
  if (!options.unk_id) options.unk_id = vocab.find("[UNK]");
  options.initial_prefix = "\xE2\x96\x81";
  options.continuing_subword_prefix.clear();
  QUIRE_ASSIGN_OR_RETURN(parts.model, WordPieceModel::make(std::move(vocab), std::move(options)));
  QUIRE_RETURN_IF_ERROR(add_special_tokens(v, parts));
  using Kind = DecoderStep::Kind;
  parts.decoder_steps.push_back(
      {.kind = Kind::kReplace, .text = " ", .pattern = {.literal = "\xE2\x96\x81", .regex = {}}});
  parts.decoder_steps.push_back({.kind = Kind::kFuse});
  parts.decoder_steps.push_back({.kind = Kind::kStrip, .text = " ", .start = 1});
  return parts;
}

Result<TokenizerParts> make_parts(GgufVocab v) {
  QUIRE_RETURN_IF_ERROR(check_and_repair(v));
  bool add_bos = false;
  bool add_eos = false;
  std::optional<TokenId> bos = checked_id(v.bos_token_id, v);
  std::optional<TokenId> eos = checked_id(v.eos_token_id, v);
  std::optional<TokenizerParts> parts;
  if (v.model == "llama" || v.model == "t5") {
    const bool is_bpe = v.model == "llama";
    QUIRE_ASSIGN_OR_RETURN(parts, make_spm(v, is_bpe));
    add_bos = is_bpe;
    add_eos = !is_bpe;
  } else if (is_metaspace_bpe(v)) {
    QUIRE_ASSIGN_OR_RETURN(parts, make_metaspace_bpe(v));
  } else if (v.model == "gpt2") {
    QUIRE_ASSIGN_OR_RETURN(parts, make_byte_level(v, add_bos));
  } else if (v.model == "bert") {
    QUIRE_ASSIGN_OR_RETURN(parts, make_bert(v));
    add_bos = add_eos = true;
    if (const auto cls = checked_id(v.cls_token_id, v)) bos = cls;
    if (const auto separator = checked_id(v.seperator_token_id, v)) eos = separator;
  } else {
    return unimplemented("tokenizer.ggml.model: unknown model '{}'", v.model);
  }
  if (v.add_bos_token.value_or(add_bos) && bos) parts->prefix_ids = {*bos};
  if (v.add_eos_token.value_or(add_eos) && eos) parts->suffix_ids = {*eos};
  parts->pair = {parts->prefix_ids, {}, parts->suffix_ids};
  if (v.model == "bert" && eos) {
    parts->pair.middle_ids = {*eos};
    parts->pair.second_has_type_1 = true;
  } else if (v.model == "t5" && eos) {  // XLM-R adds two EOS tokens, and one token at the start
    parts->pair.middle_ids =
        parts->prefix_ids.empty() ? std::vector{*eos} : std::vector{*eos, *eos};
  }
  parts->bos_id = bos;
  parts->eos_id = eos;
  if (const auto unk = checked_id(v.unknown_token_id, v)) parts->unk_id = unk;
  parts->pad_id = checked_id(v.padding_token_id, v);
  return std::move(*parts);
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> tokenizer_from_gguf(GgufVocab vocab) {
  auto parts = make_parts(std::move(vocab));
  if (!parts.ok()) return parts.status().with_context("GGUF vocabulary");
  return std::make_unique<Tokenizer>(std::move(*parts));
}

}  // namespace quire
