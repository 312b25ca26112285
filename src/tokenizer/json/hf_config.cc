#include "tokenizer/json/hf_config.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "tokenizer/json/json_fields.h"

namespace quire {
namespace json = boost::json;
namespace {

// Parses {"content": "<s>", "lstrip": false, …}.
Result<AddedToken> parse_token_object(const json::object& object) {
  AddedToken token;
  QUIRE_ASSIGN_OR_RETURN(token.content, string_field(object, "content"));
  QUIRE_ASSIGN_OR_RETURN(token.single_word, bool_field_or(object, "single_word", false));
  QUIRE_ASSIGN_OR_RETURN(token.lstrip, bool_field_or(object, "lstrip", false));
  QUIRE_ASSIGN_OR_RETURN(token.rstrip, bool_field_or(object, "rstrip", false));
  QUIRE_ASSIGN_OR_RETURN(token.normalized, bool_field_or(object, "normalized", false));
  QUIRE_ASSIGN_OR_RETURN(token.special, bool_field_or(object, "special", false));
  return token;
}

// Parses a string, or an object as above.
Result<AddedToken> parse_special(const json::value& value) {
  AddedToken token;
  if (value.is_string()) {
    token.content = as_view(value.get_string());
  } else {
    QUIRE_ASSIGN_OR_RETURN(const json::object* object, as_object(value, "special token"));
    QUIRE_ASSIGN_OR_RETURN(token, parse_token_object(*object));
  }
  token.special = true;
  return token;
}

Status parse_named(const json::object& object, std::string_view name, HfTokenizerConfig& config,
                   std::optional<std::string>* content) {
  const json::value* value = find_field(object, name);
  if (value == nullptr) return Status();
  QUIRE_ASSIGN_OR_RETURN(AddedToken token, parse_special(*value));
  if (content != nullptr) *content = token.content;
  config.special_tokens.push_back(std::move(token));
  return Status();
}

Status parse_added_tokens_decoder(const json::object& object, HfTokenizerConfig& config) {
  if (find_field(object, "added_tokens_decoder") == nullptr) return Status();
  QUIRE_ASSIGN_OR_RETURN(const json::object* list, object_field(object, "added_tokens_decoder"));
  for (const auto& entry : *list) {
    const std::string_view key(entry.key().data(), entry.key().size());
    TokenId id = -1;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), id);
    if (parsed.ec != std::errc() || parsed.ptr != key.data() + key.size() || id < 0) {
      return invalid_argument("added_tokens_decoder: expected an id, got '{}'", key);
    }
    QUIRE_ASSIGN_OR_RETURN(const json::object* fields,
                           as_object(entry.value(), "added_tokens_decoder"));
    QUIRE_ASSIGN_OR_RETURN(AddedToken token, parse_token_object(*fields));
    token.id = id;
    config.added_tokens.push_back(std::move(token));
  }
  std::sort(config.added_tokens.begin(), config.added_tokens.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  return Status();
}

// Reads additional_special_tokens, a list, and extra_special_tokens, a list or an object of names.
Status parse_more_specials(const json::object& object, HfTokenizerConfig& config) {
  for (const char* name : {"additional_special_tokens", "extra_special_tokens"}) {
    const json::value* value = find_field(object, name);
    if (value == nullptr) continue;
    if (value->is_array()) {
      for (const json::value& item : value->get_array()) {
        QUIRE_ASSIGN_OR_RETURN(AddedToken token, parse_special(item));
        config.special_tokens.push_back(std::move(token));
      }
    } else if (value->is_object()) {
      for (const auto& entry : value->get_object()) {
        QUIRE_ASSIGN_OR_RETURN(AddedToken token, parse_special(entry.value()));
        config.special_tokens.push_back(std::move(token));
      }
    }
  }
  return Status();
}

Status read_optional_bool(const json::object& object, std::string_view name,
                          std::optional<bool>& out) {
  if (find_field(object, name) == nullptr) return Status();
  QUIRE_ASSIGN_OR_RETURN(out, bool_field_or(object, name, false));
  return Status();
}

bool same_flags(const AddedToken& a, const AddedToken& b) {
  return a.single_word == b.single_word && a.lstrip == b.lstrip && a.rstrip == b.rstrip &&
         a.normalized == b.normalized && a.special == b.special;
}

}  // namespace

Result<HfTokenizerConfig> parse_hf_tokenizer_config(std::string_view text) {
  HfTokenizerConfig config;
  if (text.empty()) return config;
  QUIRE_ASSIGN_OR_RETURN(const json::value document, parse_json(text, "tokenizer_config.json"));
  QUIRE_ASSIGN_OR_RETURN(const json::object* object, as_object(document, "tokenizer_config.json"));
  QUIRE_RETURN_IF_ERROR(parse_added_tokens_decoder(*object, config));
  QUIRE_RETURN_IF_ERROR(parse_named(*object, "bos_token", config, &config.bos_token));
  QUIRE_RETURN_IF_ERROR(parse_named(*object, "eos_token", config, &config.eos_token));
  QUIRE_RETURN_IF_ERROR(parse_named(*object, "unk_token", config, &config.unk_token));
  QUIRE_RETURN_IF_ERROR(parse_named(*object, "sep_token", config, nullptr));
  QUIRE_RETURN_IF_ERROR(parse_named(*object, "pad_token", config, &config.pad_token));
  QUIRE_RETURN_IF_ERROR(parse_named(*object, "cls_token", config, nullptr));
  QUIRE_RETURN_IF_ERROR(parse_named(*object, "mask_token", config, nullptr));
  QUIRE_RETURN_IF_ERROR(parse_more_specials(*object, config));
  QUIRE_RETURN_IF_ERROR(read_optional_bool(*object, "add_bos_token", config.add_bos_token));
  QUIRE_RETURN_IF_ERROR(read_optional_bool(*object, "add_eos_token", config.add_eos_token));
  QUIRE_RETURN_IF_ERROR(read_optional_bool(*object, "legacy", config.legacy));
  constexpr int64_t kMostExtraIds = 10'000;
  QUIRE_ASSIGN_OR_RETURN(config.extra_ids, int_field_or(*object, "extra_ids", 0));
  if (config.extra_ids < 0 || config.extra_ids > kMostExtraIds) {
    return invalid_argument("extra_ids: expected 0 to {}, got {}", kMostExtraIds, config.extra_ids);
  }
  if (const json::value* name = find_field(*object, "tokenizer_class");
      name != nullptr && name->is_string()) {
    config.tokenizer_class = as_view(name->get_string());
  }
  QUIRE_ASSIGN_OR_RETURN(config.clean_up_tokenization_spaces,
                         bool_field_or(*object, "clean_up_tokenization_spaces", false));
  return config;
}

bool adds_bos_and_eos(const HfTokenizerConfig& config) {
  std::string_view name = config.tokenizer_class;
  if (name.ends_with("Fast")) name.remove_suffix(4);
  constexpr std::array<std::string_view, 5> kClasses{"LlamaTokenizer", "CodeLlamaTokenizer",
                                                     "GemmaTokenizer", "CohereTokenizer",
                                                     "GPTNeoXTokenizer"};
  return std::find(kClasses.begin(), kClasses.end(), name) != kClasses.end();
}

Status parse_added_tokens_json(std::string_view text, std::vector<AddedToken>& tokens) {
  if (text.empty()) return Status();
  QUIRE_ASSIGN_OR_RETURN(const json::value document, parse_json(text, "added_tokens.json"));
  QUIRE_ASSIGN_OR_RETURN(const json::object* object, as_object(document, "added_tokens.json"));
  for (const auto& entry : *object) {
    const auto id = as_int(entry.value());
    if (!id || *id < 0 || *id >= Vocab::kMaxSize) {
      return invalid_argument("added_tokens.json: expected an id, got {}",
                              kind_name(entry.value()));
    }
    const std::string_view content(entry.key().data(), entry.key().size());
    tokens.push_back({.id = static_cast<TokenId>(*id), .content = std::string(content)});
  }
  std::sort(tokens.begin(), tokens.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  return Status();
}

Status apply_hf_config(const HfTokenizerConfig& config, TokenizerParts& parts) {
  const Vocab& vocab = parts.model->vocab();
  const auto id_of = [&](const std::string& content) -> std::optional<TokenId> {
    if (const AddedToken* token = parts.added_tokens.find(content)) return token->id;
    return vocab.find(content);
  };
  for (AddedToken token : config.added_tokens) {
    const AddedToken* present = parts.added_tokens.find(token.content);
    if (token.content.empty() || (present != nullptr && same_flags(*present, token))) continue;
    token.id = id_of(token.content).value_or(token.id);
    QUIRE_RETURN_IF_ERROR(parts.added_tokens.add(std::move(token)));
  }
  for (AddedToken token : config.special_tokens) {
    if (token.content.empty() || parts.added_tokens.find(token.content) != nullptr) continue;
    TokenId next_id = vocab.size();
    for (const AddedToken& other : parts.added_tokens.all())
      next_id = std::max(next_id, other.id + 1);
    token.id = id_of(token.content).value_or(next_id);
    QUIRE_RETURN_IF_ERROR(parts.added_tokens.add(std::move(token)));
  }
  if (config.bos_token) parts.bos_id = id_of(*config.bos_token);
  if (config.eos_token) parts.eos_id = id_of(*config.eos_token);
  if (config.unk_token) parts.unk_id = id_of(*config.unk_token);
  if (config.pad_token) parts.pad_id = id_of(*config.pad_token);
  return Status();
}

}  // namespace quire
