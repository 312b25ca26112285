#include "tokenizer/json/json_components.h"

#include "base/base64.h"
#include "tokenizer/json/json_fields.h"
#include "tokenizer/unicode/unicode.h"

namespace quire {
namespace json = boost::json;
namespace {

Result<TextPattern> parse_pattern(const json::object& object) {
  QUIRE_ASSIGN_OR_RETURN(const json::object* pattern, object_field(object, "pattern"));
  TextPattern out;
  if (find_field(*pattern, "String") != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(out.literal, string_field(*pattern, "String"));
    return out;
  }
  QUIRE_ASSIGN_OR_RETURN(const std::string regex, string_field(*pattern, "Regex"));
  QUIRE_ASSIGN_OR_RETURN(out.regex, Regex::compile(regex));
  return out;
}

// Parses each element of the array `name` with `parse` and passes the list to `make`.
template <typename T, typename Parse>
Result<std::vector<std::unique_ptr<T>>> parse_parts(const json::object& object,
                                                    std::string_view name, Parse&& parse) {
  QUIRE_ASSIGN_OR_RETURN(const json::array* array, array_field(object, name));
  std::vector<std::unique_ptr<T>> parts;
  for (size_t i = 0; i < array->size(); ++i) {
    QUIRE_ASSIGN_OR_RETURN(auto part, parse((*array)[i], i + 1 == array->size()));
    parts.push_back(std::move(part));
  }
  return parts;
}

using NormalizerResult = Result<std::unique_ptr<Normalizer>>;

NormalizerResult parse_bert_normalizer(const json::object& object) {
  BertNormalizerOptions options;
  QUIRE_ASSIGN_OR_RETURN(options.clean_text, bool_field_or(object, "clean_text", true));
  QUIRE_ASSIGN_OR_RETURN(options.handle_chinese_chars,
                         bool_field_or(object, "handle_chinese_chars", true));
  QUIRE_ASSIGN_OR_RETURN(options.lowercase, bool_field_or(object, "lowercase", true));
  if (find_field(object, "strip_accents") != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(options.strip_accents, bool_field_or(object, "strip_accents", true));
  }
  return make_bert_normalizer(options);
}

NormalizerResult parse_precompiled(const json::object& object) {
  QUIRE_ASSIGN_OR_RETURN(const std::string text,
                         string_field_or(object, "precompiled_charsmap", ""));
  const auto blob = base64_decode(text);
  if (!blob) return invalid_argument("'precompiled_charsmap': expected base64");
  if (blob->empty()) return make_sequence_normalizer({});
  QUIRE_ASSIGN_OR_RETURN(Charsmap map, Charsmap::parse(*blob));
  return make_precompiled_normalizer(std::move(map));
}

NormalizerResult parse_normalizer_type(const std::string& type, const json::object& object) {
  if (type == "NFC") return make_unicode_normalizer(NormalForm::kNfc);
  if (type == "NFD") return make_unicode_normalizer(NormalForm::kNfd);
  if (type == "NFKC") return make_unicode_normalizer(NormalForm::kNfkc);
  if (type == "NFKD") return make_unicode_normalizer(NormalForm::kNfkd);
  if (type == "Lowercase") return make_lowercase_normalizer();
  if (type == "StripAccents") return make_strip_accents_normalizer();
  if (type == "Nmt") return make_nmt_normalizer();
  if (type == "ByteLevel") return make_byte_level_normalizer();
  if (type == "BertNormalizer") return parse_bert_normalizer(object);
  if (type == "Precompiled") return parse_precompiled(object);
  if (type == "Strip") {
    QUIRE_ASSIGN_OR_RETURN(const bool left, bool_field_or(object, "strip_left", true));
    QUIRE_ASSIGN_OR_RETURN(const bool right, bool_field_or(object, "strip_right", true));
    return make_strip_normalizer(left, right);
  }
  if (type == "Prepend") {
    QUIRE_ASSIGN_OR_RETURN(std::string prefix, string_field(object, "prepend"));
    return make_prepend_normalizer(std::move(prefix));
  }
  if (type == "Replace") {
    QUIRE_ASSIGN_OR_RETURN(TextPattern pattern, parse_pattern(object));
    QUIRE_ASSIGN_OR_RETURN(std::string content, string_field(object, "content"));
    return make_replace_normalizer(std::move(pattern), std::move(content));
  }
  if (type == "Sequence") {
    QUIRE_ASSIGN_OR_RETURN(
        auto parts, parse_parts<Normalizer>(object, "normalizers", [](const json::value& v, bool) {
          return parse_normalizer(v);
        }));
    return make_sequence_normalizer(std::move(parts));
  }
  return unimplemented("normalizer: unknown type '{}'", type);
}

Result<SplitBehavior> parse_behavior(const json::object& object) {
  QUIRE_ASSIGN_OR_RETURN(const std::string name, string_field_or(object, "behavior", "Isolated"));
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return invalid_argument("'behavior': unknown value '{}'", name);
}

// Older files have add_prefix_space instead of prepend_scheme.
Result<PrependScheme> parse_prepend_scheme(const json::object& object) {
  QUIRE_ASSIGN_OR_RETURN(const bool legacy, bool_field_or(object, "add_prefix_space", true));
  QUIRE_ASSIGN_OR_RETURN(const std::string name,
                         string_field_or(object, "prepend_scheme", legacy ? "always" : "never"));
  if (name == "always") return PrependScheme::kAlways;
  if (name == "first") return PrependScheme::kFirst;
  if (name == "never") return PrependScheme::kNever;
  return invalid_argument("'prepend_scheme': expected always, first or never, got '{}'", name);
}

Result<std::string> parse_replacement(const json::object& object) {
  QUIRE_ASSIGN_OR_RETURN(std::string text, string_field_or(object, "replacement", "\xE2\x96\x81"));
  if (text.empty() || decode_utf8(text).size != text.size()) {
    return invalid_argument("'replacement': expected one character, got '{}'", text);
  }
  return text;
}

using PreTokenizerResult = Result<std::unique_ptr<PreTokenizer>>;

PreTokenizerResult parse_metaspace(const json::object& object) {
  QUIRE_ASSIGN_OR_RETURN(std::string replacement, parse_replacement(object));
  QUIRE_ASSIGN_OR_RETURN(const PrependScheme scheme, parse_prepend_scheme(object));
  QUIRE_ASSIGN_OR_RETURN(const bool split, bool_field_or(object, "split", true));
  return make_metaspace_pre_tokenizer(std::move(replacement), scheme, split);
}

PreTokenizerResult parse_byte_level(const json::object& object, bool raw_bytes) {
  ByteLevelOptions options{.map_bytes = !raw_bytes};
  QUIRE_ASSIGN_OR_RETURN(options.add_prefix_space, bool_field_or(object, "add_prefix_space", true));
  QUIRE_ASSIGN_OR_RETURN(options.use_regex, bool_field_or(object, "use_regex", true));
  return make_byte_level_pre_tokenizer(options);
}

PreTokenizerResult parse_split(const json::object& object) {
  QUIRE_ASSIGN_OR_RETURN(TextPattern pattern, parse_pattern(object));
  QUIRE_ASSIGN_OR_RETURN(const SplitBehavior behavior, parse_behavior(object));
  QUIRE_ASSIGN_OR_RETURN(const bool invert, bool_field_or(object, "invert", false));
  return make_split_pre_tokenizer(std::move(pattern), behavior, invert);
}

PreTokenizerResult parse_pre_tokenizer_type(const std::string& type, const json::object& object,
                                            bool raw_bytes) {
  if (type == "ByteLevel") return parse_byte_level(object, raw_bytes);
  if (type == "Metaspace") return parse_metaspace(object);
  if (type == "Split") return parse_split(object);
  if (type == "Whitespace") return make_whitespace_pre_tokenizer();
  if (type == "WhitespaceSplit") return make_whitespace_split_pre_tokenizer();
  if (type == "UnicodeScripts") return make_unicode_scripts_pre_tokenizer();
  if (type == "BertPreTokenizer") return make_bert_pre_tokenizer();
  if (type == "Punctuation") {
    QUIRE_ASSIGN_OR_RETURN(const SplitBehavior behavior, parse_behavior(object));
    return make_punctuation_pre_tokenizer(behavior);
  }
  if (type == "Digits") {
    QUIRE_ASSIGN_OR_RETURN(const bool individual,
                           bool_field_or(object, "individual_digits", false));
    return make_digits_pre_tokenizer(individual);
  }
  if (type == "CharDelimiterSplit") {
    QUIRE_ASSIGN_OR_RETURN(const std::string delimiter, string_field(object, "delimiter"));
    if (delimiter.empty() || decode_utf8(delimiter).size != delimiter.size()) {
      return invalid_argument("'delimiter': expected one character, got '{}'", delimiter);
    }
    return make_char_delimiter_pre_tokenizer(decode_utf8(delimiter).value);
  }
  if (type == "FixedLength") {
    QUIRE_ASSIGN_OR_RETURN(const int64_t length, int_field(object, "length"));
    if (length < 1) return invalid_argument("'length': expected at least 1, got {}", length);
    return make_fixed_length_pre_tokenizer(length);
  }
  if (type == "Sequence") {
    QUIRE_ASSIGN_OR_RETURN(
        auto parts,
        parse_parts<PreTokenizer>(object, "pretokenizers", [&](const json::value& v, bool is_last) {
          return parse_pre_tokenizer(v, raw_bytes && is_last);
        }));
    return make_sequence_pre_tokenizer(std::move(parts));
  }
  return unimplemented("pre_tokenizer: unknown type '{}'", type);
}

Result<DecoderStep> parse_decoder_step(const std::string& type, const json::object& object) {
  using Kind = DecoderStep::Kind;
  DecoderStep step;
  if (type == "ByteLevel") {
    step.kind = Kind::kByteLevel;
  } else if (type == "ByteFallback") {
    step.kind = Kind::kByteFallback;
  } else if (type == "Fuse") {
    step.kind = Kind::kFuse;
  } else if (type == "Metaspace") {
    step.kind = Kind::kMetaspace;
    QUIRE_ASSIGN_OR_RETURN(step.text, parse_replacement(object));
    QUIRE_ASSIGN_OR_RETURN(const PrependScheme scheme, parse_prepend_scheme(object));
    step.flag = scheme != PrependScheme::kNever;
  } else if (type == "WordPiece") {
    step.kind = Kind::kWordPiece;
    QUIRE_ASSIGN_OR_RETURN(step.text, string_field_or(object, "prefix", "##"));
    QUIRE_ASSIGN_OR_RETURN(step.flag, bool_field_or(object, "cleanup", true));
  } else if (type == "Strip") {
    step.kind = Kind::kStrip;
    QUIRE_ASSIGN_OR_RETURN(step.text, string_field_or(object, "content", " "));
    QUIRE_ASSIGN_OR_RETURN(step.start, int_field_or(object, "start", 0));
    QUIRE_ASSIGN_OR_RETURN(step.stop, int_field_or(object, "stop", 0));
  } else if (type == "Replace") {
    step.kind = Kind::kReplace;
    QUIRE_ASSIGN_OR_RETURN(step.pattern, parse_pattern(object));
    QUIRE_ASSIGN_OR_RETURN(step.text, string_field(object, "content"));
  } else if (type == "BPEDecoder") {
    step.kind = Kind::kBpe;
    QUIRE_ASSIGN_OR_RETURN(step.text, string_field_or(object, "suffix", "</w>"));
  } else if (type == "CTC") {
    step.kind = Kind::kCtc;
    QUIRE_ASSIGN_OR_RETURN(step.text, string_field_or(object, "pad_token", "<pad>"));
    QUIRE_ASSIGN_OR_RETURN(step.delimiter, string_field_or(object, "word_delimiter_token", "|"));
    QUIRE_ASSIGN_OR_RETURN(step.flag, bool_field_or(object, "cleanup", true));
  } else {
    return unimplemented("decoder: unknown type '{}'", type);
  }
  return step;
}

Result<TokenId> checked_id(const json::value& value) {
  const auto id = as_int(value);
  if (!id || *id < 0 || *id >= Vocab::kMaxSize) {
    return invalid_argument("post_processor: expected a token id");
  }
  return static_cast<TokenId>(*id);
}

// A TemplateIds holds the special tokens of a template before, between and behind its sequences, of
// which there are at most two.
struct TemplateIds {
  std::vector<TokenId> around[3];
  int num_sequences = 0;
  bool second_has_type_1 = false;
};

Result<std::vector<TokenId>> special_ids(const json::object& object, const json::object& entry) {
  QUIRE_ASSIGN_OR_RETURN(const json::object* token, object_field(entry, "SpecialToken"));
  QUIRE_ASSIGN_OR_RETURN(const std::string name, string_field(*token, "id"));
  QUIRE_ASSIGN_OR_RETURN(const json::object* specials, object_field(object, "special_tokens"));
  QUIRE_ASSIGN_OR_RETURN(const json::object* special, object_field(*specials, name));
  QUIRE_ASSIGN_OR_RETURN(const json::array* values, array_field(*special, "ids"));
  std::vector<TokenId> ids;
  for (const json::value& value : *values) {
    QUIRE_ASSIGN_OR_RETURN(const TokenId id, checked_id(value));
    ids.push_back(id);
  }
  return ids;
}

// Parses [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A", "type_id": 0}}]; `object` also
// has "special_tokens": {"<s>": {"ids": [1]}}.
Result<TemplateIds> read_template(const json::object& object, std::string_view field,
                                  int max_sequences) {
  QUIRE_ASSIGN_OR_RETURN(const json::array* items, array_field(object, field));
  TemplateIds out;
  for (const json::value& item : *items) {
    QUIRE_ASSIGN_OR_RETURN(const json::object* entry, as_object(item, field));
    if (find_field(*entry, "Sequence") != nullptr) {
      QUIRE_ASSIGN_OR_RETURN(const json::object* sequence, object_field(*entry, "Sequence"));
      const json::value* type = find_field(*sequence, "type_id");
      if (++out.num_sequences == 2) out.second_has_type_1 = type != nullptr && as_int(*type) == 1;
      if (out.num_sequences > max_sequences) break;
      continue;
    }
    QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, special_ids(object, *entry));
    std::vector<TokenId>& place = out.around[out.num_sequences];
    place.insert(place.end(), ids.begin(), ids.end());
  }
  if (out.num_sequences != max_sequences) {
    return unimplemented("TemplateProcessing: expected {} in '{}', got {}",
                         max_sequences == 1 ? "one sequence" : "two sequences", field,
                         out.num_sequences);
  }
  return out;
}

Status parse_template(const json::object& object, PostProcessor& out) {
  QUIRE_ASSIGN_OR_RETURN(const TemplateIds single, read_template(object, "single", 1));
  const auto& [prefix, suffix, unused] = single.around;
  out.prefix_ids.insert(out.prefix_ids.begin(), prefix.begin(), prefix.end());
  out.suffix_ids.insert(out.suffix_ids.end(), suffix.begin(), suffix.end());
  const json::value* pair = find_field(object, "pair");
  if (pair == nullptr || !pair->is_array() || pair->get_array().empty()) return Status();
  QUIRE_ASSIGN_OR_RETURN(const TemplateIds two, read_template(object, "pair", 2));
  out.pair = PairTemplate{two.around[0], two.around[1], two.around[2], two.second_has_type_1};
  return Status();
}

// Parses {"sep": ["</s>", 2], "cls": ["<s>", 0]}.
Status parse_cls_sep(const json::object& object, bool is_bert, PostProcessor& out) {
  const auto id_of = [&](std::string_view name) -> Result<TokenId> {
    QUIRE_ASSIGN_OR_RETURN(const json::array* pair, array_field(object, name));
    if (pair->size() != 2) return invalid_argument("'{}': expected [token, id]", name);
    return checked_id((*pair)[1]);
  };
  QUIRE_ASSIGN_OR_RETURN(const TokenId cls, id_of("cls"));
  QUIRE_ASSIGN_OR_RETURN(const TokenId sep, id_of("sep"));
  out.prefix_ids.insert(out.prefix_ids.begin(), cls);
  out.suffix_ids.push_back(sep);
  // RoBERTa has no token types, and two separators between the texts.
  std::vector<TokenId> middle(is_bert ? 1 : 2, sep);
  out.pair = PairTemplate{{cls}, std::move(middle), {sep}, is_bert};
  return Status();
}

// Counts the ByteLevel steps below `value`, each of which can double a text.
int count_byte_levels(const json::value& value) {
  int count = 0;
  if (value.is_array()) {
    for (const json::value& item : value.get_array()) count += count_byte_levels(item);
  } else if (value.is_object()) {
    const json::value* type = find_field(value.get_object(), "type");
    count += type != nullptr && type->is_string() && type->get_string() == "ByteLevel";
    for (const auto& entry : value.get_object()) {
      if (entry.value().is_array()) count += count_byte_levels(entry.value());
    }
  }
  return count;
}

Status check_growth(const json::value& value, std::string_view what) {
  constexpr int kMaxByteLevels = 2;
  const int count = count_byte_levels(value);
  if (count <= kMaxByteLevels) return Status();
  return invalid_argument("{}: expected at most {} ByteLevel steps, got {}", what, kMaxByteLevels,
                          count);
}

}  // namespace

NormalizerResult parse_normalizer(const json::value& value) {
  QUIRE_RETURN_IF_ERROR(check_growth(value, "normalizer"));
  QUIRE_ASSIGN_OR_RETURN(const json::object* object, as_object(value, "normalizer"));
  QUIRE_ASSIGN_OR_RETURN(const std::string type, string_field(*object, "type"));
  return parse_normalizer_type(type, *object);
}

PreTokenizerResult parse_pre_tokenizer(const json::value& value, bool raw_bytes) {
  QUIRE_RETURN_IF_ERROR(check_growth(value, "pre_tokenizer"));
  QUIRE_ASSIGN_OR_RETURN(const json::object* object, as_object(value, "pre_tokenizer"));
  QUIRE_ASSIGN_OR_RETURN(const std::string type, string_field(*object, "type"));
  return parse_pre_tokenizer_type(type, *object, raw_bytes);
}

bool ends_in_byte_level(const json::value& value) {
  if (!value.is_object()) return false;
  const json::object& object = value.get_object();
  const json::value* type = find_field(object, "type");
  if (type == nullptr || !type->is_string()) return false;
  if (type->get_string() == "ByteLevel") return true;
  const json::value* parts = find_field(object, "pretokenizers");
  return type->get_string() == "Sequence" && parts != nullptr && parts->is_array() &&
         !parts->get_array().empty() && ends_in_byte_level(parts->get_array().back());
}

Status parse_decoder(const json::value& value, std::vector<DecoderStep>& steps) {
  QUIRE_ASSIGN_OR_RETURN(const json::object* object, as_object(value, "decoder"));
  QUIRE_ASSIGN_OR_RETURN(const std::string type, string_field(*object, "type"));
  if (type != "Sequence") {
    QUIRE_ASSIGN_OR_RETURN(DecoderStep step, parse_decoder_step(type, *object));
    steps.push_back(std::move(step));
    return Status();
  }
  QUIRE_ASSIGN_OR_RETURN(const json::array* parts, array_field(*object, "decoders"));
  for (const json::value& part : *parts) QUIRE_RETURN_IF_ERROR(parse_decoder(part, steps));
  return Status();
}

Status parse_post_processor(const json::value& value, PostProcessor& out) {
  QUIRE_ASSIGN_OR_RETURN(const json::object* object, as_object(value, "post_processor"));
  QUIRE_ASSIGN_OR_RETURN(const std::string type, string_field(*object, "type"));
  if (type == "ByteLevel") return Status();  // it only changes offsets
  if (type == "TemplateProcessing") return parse_template(*object, out);
  if (type == "BertProcessing" || type == "RobertaProcessing")
    return parse_cls_sep(*object, type == "BertProcessing", out);
  if (type != "Sequence") return unimplemented("post_processor: unknown type '{}'", type);
  QUIRE_ASSIGN_OR_RETURN(const json::array* parts, array_field(*object, "processors"));
  bool has_template = false;
  for (const json::value& part : *parts) {
    const size_t num_before = out.prefix_ids.size() + out.suffix_ids.size();
    QUIRE_RETURN_IF_ERROR(parse_post_processor(part, out));
    // The reference applies it to each part of the template separately; no tokenizer has both.
    if (has_template && out.prefix_ids.size() + out.suffix_ids.size() != num_before) {
      return unimplemented("post_processor: tokens added after TemplateProcessing");
    }
    const json::value* kind = find_field(part.as_object(), "type");
    has_template |= kind->as_string() == "TemplateProcessing";
  }
  return Status();
}

}  // namespace quire
