#include "tokenizer/json/tokenizer_json.h"

#include "tokenizer/json/hf_config.h"
#include "tokenizer/json/json_components.h"
#include "tokenizer/json/json_fields.h"

namespace quire {
namespace json = boost::json;
namespace {

Status parse_added_tokens(const json::object& document, TokenizerParts& parts) {
  if (find_field(document, "added_tokens") == nullptr) return Status();
  QUIRE_ASSIGN_OR_RETURN(const json::array* list, array_field(document, "added_tokens"));
  for (const json::value& value : *list) {
    QUIRE_ASSIGN_OR_RETURN(const json::object* object, as_object(value, "added_tokens"));
    AddedToken token;
    QUIRE_ASSIGN_OR_RETURN(token.content, string_field(*object, "content"));
    QUIRE_ASSIGN_OR_RETURN(const int64_t id, int_field(*object, "id"));
    if (id < 0 || id >= Vocab::kMaxSize) {
      return invalid_argument("added token '{}': expected an id in [0, {}), got {}", token.content,
                              Vocab::kMaxSize, id);
    }
    QUIRE_ASSIGN_OR_RETURN(token.single_word, bool_field_or(*object, "single_word", false));
    QUIRE_ASSIGN_OR_RETURN(token.lstrip, bool_field_or(*object, "lstrip", false));
    QUIRE_ASSIGN_OR_RETURN(token.rstrip, bool_field_or(*object, "rstrip", false));
    QUIRE_ASSIGN_OR_RETURN(token.special, bool_field_or(*object, "special", false));
    QUIRE_ASSIGN_OR_RETURN(token.normalized, bool_field_or(*object, "normalized", !token.special));
    if (token.content.empty()) continue;
    // A token that is a piece of the model keeps the model's id.
    token.id = parts.model->vocab().find(token.content).value_or(static_cast<TokenId>(id));
    QUIRE_RETURN_IF_ERROR(parts.added_tokens.add(std::move(token)));
  }
  return Status();
}

Status parse_components(const json::object& document, TokenizerParts& parts, bool& is_bpe) {
  const json::value* pre_tokenizer = find_field(document, "pre_tokenizer");
  const json::value* model = find_field(document, "model");
  if (model == nullptr) return invalid_argument("'model': expected an object, got nothing");
  ModelInput input{.byte_level_words =
                       pre_tokenizer != nullptr && ends_in_byte_level(*pre_tokenizer)};
  QUIRE_ASSIGN_OR_RETURN(ParsedModel parsed, parse_model(*model, input));
  parts.model = std::move(parsed.model);
  parts.unk_id = parsed.unk_id;
  is_bpe = parsed.is_bpe;
  if (const json::value* value = find_field(document, "normalizer")) {
    QUIRE_ASSIGN_OR_RETURN(parts.normalizer, parse_normalizer(*value));
    const double growth = parts.normalizer ? parts.normalizer->max_growth() : 1;
    if (growth > kMaxNormalizerGrowth) {
      return invalid_argument(
          "normalizer: its steps may make a text {:.0f} times as long, expected at most {:.0f}",
          growth, kMaxNormalizerGrowth);
    }
  }
  if (pre_tokenizer != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(parts.pre_tokenizer,
                           parse_pre_tokenizer(*pre_tokenizer, input.reads_raw_bytes));
  }
  if (const json::value* value = find_field(document, "post_processor")) {
    PostProcessor post;
    QUIRE_RETURN_IF_ERROR(parse_post_processor(*value, post));
    parts.pair = post.pair.value_or(PairTemplate{post.prefix_ids, {}, post.suffix_ids});
    parts.prefix_ids = std::move(post.prefix_ids);
    parts.suffix_ids = std::move(post.suffix_ids);
  }
  if (const json::value* value = find_field(document, "decoder")) {
    QUIRE_RETURN_IF_ERROR(parse_decoder(*value, parts.decoder_steps));
    // An empty sequence of decoders joins the pieces; without a decoder, spaces are put between
    // them.
    if (parts.decoder_steps.empty()) {
      parts.decoder_steps.push_back({.kind = DecoderStep::Kind::kFuse});
    }
  }
  return parse_added_tokens(document, parts);
}

Result<TokenizerParts> parse_tokenizer_json(std::string_view json_text, bool& is_bpe) {
  QUIRE_ASSIGN_OR_RETURN(const json::value document, parse_json(json_text, "JSON"));
  QUIRE_ASSIGN_OR_RETURN(const json::object* object, as_object(document, "document"));
  TokenizerParts parts;
  QUIRE_RETURN_IF_ERROR(parse_components(*object, parts, is_bpe));
  return parts;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> tokenizer_from_json(std::string_view json_text,
                                                       std::string_view config_text) {
  bool is_bpe = false;
  auto parts = parse_tokenizer_json(json_text, is_bpe);
  if (!parts.ok()) return parts.status().with_context("tokenizer.json");
  QUIRE_ASSIGN_OR_RETURN(const HfTokenizerConfig config, parse_hf_tokenizer_config(config_text));
  QUIRE_RETURN_IF_ERROR(apply_hf_config(config, *parts));
  if (parts->prefix_ids.empty() && parts->suffix_ids.empty() && adds_bos_and_eos(config)) {
    if (config.add_bos_token.value_or(false) && parts->bos_id) parts->prefix_ids = {*parts->bos_id};
    if (config.add_eos_token.value_or(false) && parts->eos_id) parts->suffix_ids = {*parts->eos_id};
    parts->pair = {parts->prefix_ids, {}, parts->suffix_ids};
  }
  // The clean-up was made for WordPiece and corrupts byte-exact vocabularies. transformers does not
  // apply it to BPE either.
  if (config.clean_up_tokenization_spaces && !is_bpe) {
    if (parts->decoder_steps.empty()) {
      parts->decoder_steps.push_back({.kind = DecoderStep::Kind::kJoinWithSpace});
    }
    parts->decoder_steps.push_back({.kind = DecoderStep::Kind::kFuse});
    parts->decoder_steps.push_back({.kind = DecoderStep::Kind::kCleanUp});
  }
  return std::make_unique<Tokenizer>(std::move(*parts));
}

}  // namespace quire
