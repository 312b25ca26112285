#include "tokenizer/files/vocab_files.h"

#include "tokenizer/json/hf_config.h"
#include "tokenizer/json/json_fields.h"
#include "tokenizer/model/bpe.h"
#include "tokenizer/model/merges.h"
#include "tokenizer/model/wordpiece.h"
#include "tokenizer/stages/word_scanner.h"
#include "tokenizer/unicode/unicode.h"

namespace quire {
namespace json = boost::json;
namespace {

// ClassConfig holds the fields that only these two kinds of files need.
struct ClassConfig {
  BertNormalizerOptions bert;
  bool add_prefix_space = false;
  std::string tokenizer_class;
};

Result<ClassConfig> parse_class_config(std::string_view text) {
  ClassConfig config;
  if (text.empty()) return config;
  QUIRE_ASSIGN_OR_RETURN(const json::value document, parse_json(text, "tokenizer_config.json"));
  QUIRE_ASSIGN_OR_RETURN(const json::object* object, as_object(document, "tokenizer_config.json"));
  QUIRE_ASSIGN_OR_RETURN(config.bert.lowercase, bool_field_or(*object, "do_lower_case", true));
  QUIRE_ASSIGN_OR_RETURN(config.bert.handle_chinese_chars,
                         bool_field_or(*object, "tokenize_chinese_chars", true));
  if (find_field(*object, "strip_accents") != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(config.bert.strip_accents,
                           bool_field_or(*object, "strip_accents", true));
  }
  QUIRE_ASSIGN_OR_RETURN(config.add_prefix_space,
                         bool_field_or(*object, "add_prefix_space", false));
  QUIRE_ASSIGN_OR_RETURN(config.tokenizer_class, string_field_or(*object, "tokenizer_class", ""));
  return config;
}

Result<Vocab> parse_vocab_lines(std::string_view text) {
  Vocab vocab;
  vocab.reserve(text.size() / 8, text.size());
  for (int64_t id = 0; !text.empty(); ++id) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!is_valid_utf8(line)) return invalid_argument("vocab.txt: line {} is not UTF-8", id + 1);
    QUIRE_RETURN_IF_ERROR(vocab.add(line, id).with_context("vocab.txt"));
  }
  if (vocab.size() == 0)
    return invalid_argument("vocab.txt: expected one piece a line, got nothing");
  return vocab;
}

Result<Vocab> parse_vocab_json(std::string_view text) {
  QUIRE_ASSIGN_OR_RETURN(const json::value document, parse_json(text, "vocab.json"));
  QUIRE_ASSIGN_OR_RETURN(const json::object* object, as_object(document, "vocab.json"));
  Vocab vocab;
  vocab.reserve(object->size(), text.size());
  for (const auto& entry : *object) {
    const std::string_view piece(entry.key().data(), entry.key().size());
    const auto id = as_int(entry.value());
    if (!id) return invalid_argument("vocab.json: expected an id for '{}'", piece);
    QUIRE_RETURN_IF_ERROR(vocab.add(piece, *id).with_context("vocab.json"));
  }
  return vocab;
}

Status add_special(std::string_view content, TokenizerParts& parts) {
  const auto id = parts.model->vocab().find(content);
  if (!id || parts.added_tokens.find(content) != nullptr) return Status();
  return parts.added_tokens.add({.id = *id, .content = std::string(content), .special = true});
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> tokenizer_from_vocab_txt(std::string_view vocab_text,
                                                            std::string_view config_text) {
  QUIRE_ASSIGN_OR_RETURN(const ClassConfig config, parse_class_config(config_text));
  QUIRE_ASSIGN_OR_RETURN(const HfTokenizerConfig hf, parse_hf_tokenizer_config(config_text));
  QUIRE_ASSIGN_OR_RETURN(Vocab vocab, parse_vocab_lines(vocab_text));
  TokenizerParts parts;
  parts.unk_id = vocab.find("[UNK]");
  parts.pad_id = vocab.find("[PAD]");
  if (const auto cls = vocab.find("[CLS]")) parts.prefix_ids = {*cls};
  if (const auto sep = vocab.find("[SEP]")) parts.suffix_ids = {*sep};
  parts.pair = {parts.prefix_ids, parts.suffix_ids, parts.suffix_ids, true};
  parts.normalizer = make_bert_normalizer(config.bert);
  parts.pre_tokenizer = make_bert_pre_tokenizer();
  WordPieceOptions options;
  options.unk_id = parts.unk_id;
  QUIRE_ASSIGN_OR_RETURN(parts.model, WordPieceModel::make(std::move(vocab), std::move(options)));
  for (const char* special : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}) {
    QUIRE_RETURN_IF_ERROR(add_special(special, parts));
  }
  QUIRE_RETURN_IF_ERROR(apply_hf_config(hf, parts));
  parts.decoder_steps.push_back(
      {.kind = DecoderStep::Kind::kWordPiece, .text = "##", .flag = true});
  return std::make_unique<Tokenizer>(std::move(parts));
}

Result<std::unique_ptr<Tokenizer>> tokenizer_from_vocab_and_merges(std::string_view vocab_json,
                                                                   std::string_view merges_text,
                                                                   std::string_view config_text) {
  QUIRE_ASSIGN_OR_RETURN(const ClassConfig config, parse_class_config(config_text));
  QUIRE_ASSIGN_OR_RETURN(const HfTokenizerConfig hf, parse_hf_tokenizer_config(config_text));
  QUIRE_ASSIGN_OR_RETURN(Vocab vocab, parse_vocab_json(vocab_json));
  auto merges = parse_merge_lines(merges_text, vocab);
  if (!merges.ok()) return merges.status().with_context("merges.txt");
  TokenizerParts parts;
  std::vector<std::unique_ptr<PreTokenizer>> steps;
  const bool is_qwen2 = config.tokenizer_class.starts_with("Qwen2Tokenizer");
  if (is_qwen2) {
    parts.normalizer = make_unicode_normalizer(NormalForm::kNfc);
    TextPattern pattern;
    QUIRE_ASSIGN_OR_RETURN(pattern.regex, Regex::compile(kQwen2Pattern));
    steps.push_back(make_split_pre_tokenizer(std::move(pattern), SplitBehavior::kIsolated, false));
  }
  steps.push_back(make_byte_level_pre_tokenizer(
      {.add_prefix_space = config.add_prefix_space, .use_regex = !is_qwen2, .map_bytes = false}));
  parts.pre_tokenizer = make_sequence_pre_tokenizer(std::move(steps));
  QUIRE_ASSIGN_OR_RETURN(parts.model,
                         BpeModel::make(std::move(vocab), *merges, {.raw_bytes = true}));
  QUIRE_RETURN_IF_ERROR(add_special("<|endoftext|>", parts));
  parts.eos_id = parts.model->vocab().find("<|endoftext|>");
  QUIRE_RETURN_IF_ERROR(apply_hf_config(hf, parts));
  if (hf.add_bos_token.value_or(false) && parts.bos_id) parts.prefix_ids = {*parts.bos_id};
  if (hf.add_eos_token.value_or(false) && parts.eos_id) parts.suffix_ids = {*parts.eos_id};
  parts.decoder_steps.push_back({.kind = DecoderStep::Kind::kByteLevel});
  return std::make_unique<Tokenizer>(std::move(parts));
}

}  // namespace quire
