#include "server/speech/speech_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <optional>

namespace quire {
namespace {

namespace json = boost::json;

TokenId find_mark(std::span<const MarkToken> marks, std::string_view text) {
  const auto it =
      std::ranges::find_if(marks, [&](const MarkToken& mark) { return mark.text == text; });
  return it == marks.end() ? -1 : it->id;
}

Result<TokenId> require_mark(std::span<const MarkToken> marks, std::string_view text) {
  const TokenId id = find_mark(marks, text);
  if (id >= 0) return id;
  return invalid_argument("tokenizer.json: expected the token {} of a model of speech", text);
}

// Reads <|en|> to <|yue|>.
std::optional<std::string> language_of(std::string_view text) {
  constexpr std::string_view kBegin = "<|", kEnd = "|>";
  if (!text.starts_with(kBegin) || !text.ends_with(kEnd)) return std::nullopt;
  text = text.substr(kBegin.size(), text.size() - kBegin.size() - kEnd.size());
  const bool is_code = (text.size() == 2 || text.size() == 3) &&
                       std::ranges::all_of(text, [](char c) { return c >= 'a' && c <= 'z'; });
  return is_code ? std::optional<std::string>(text) : std::nullopt;
}

Result<std::vector<TokenId>> read_ids(const json::object& object, std::string_view key) {
  std::vector<TokenId> ids;
  const json::value* const value = object.if_contains(key);
  if (value == nullptr || value->is_null()) return ids;
  const auto refuse = [&] {
    return invalid_argument("generation_config.json: {}: expected a list of token ids", key);
  };
  if (!value->is_array()) return refuse();
  for (const json::value& one : value->get_array()) {
    const std::int64_t* const id = one.if_int64();
    if (id == nullptr || *id > INT32_MAX || *id < -1) return refuse();
    if (*id >= 0) ids.push_back(static_cast<TokenId>(*id));  // -1 stands for the model's own list
  }
  return ids;
}

Status read_generation(std::string_view text, SpeechTokens& tokens) {
  if (text.empty()) return {};
  json::error_code error;
  const json::value value = json::parse({text.data(), text.size()}, error);
  if (error || !value.is_object())
    return invalid_argument("generation_config.json: expected a JSON object");
  const json::object& object = value.get_object();
  QUIRE_ASSIGN_OR_RETURN(tokens.suppressed, read_ids(object, "suppress_tokens"));
  QUIRE_ASSIGN_OR_RETURN(tokens.suppressed_first, read_ids(object, "begin_suppress_tokens"));
  if (const json::value* const first = object.if_contains("max_initial_timestamp_index");
      first != nullptr && !first->is_null()) {
    const std::int64_t* const index = first->if_int64();
    if (index == nullptr || *index < 0 || *index > INT32_MAX)
      return invalid_argument(
          "generation_config.json: max_initial_timestamp_index: expected a number >= 0");
    tokens.max_first_step = static_cast<int32_t>(*index);
  }
  // The code that runs the model checks the heads.
  const json::value* const heads = object.if_contains("alignment_heads");
  tokens.times_words = heads != nullptr && heads->is_array() && !heads->get_array().empty();
  const json::value* const multilingual = object.if_contains("is_multilingual");
  if (multilingual != nullptr && multilingual->is_bool() && !multilingual->get_bool())
    tokens.languages.clear();
  return {};
}

}  // namespace

TokenId SpeechTokens::find_language(std::string_view code) const {
  const auto it =
      std::ranges::find_if(languages, [&](const auto& one) { return one.first == code; });
  return it == languages.end() ? -1 : it->second;
}

TranscriptRules SpeechTokens::rules() const {
  return {.suppressed = suppressed,
          .suppressed_first = suppressed_first,
          .first_timestamp = first_timestamp,
          .no_timestamps = no_timestamps,
          .end_of_text = end_of_text,
          .max_first_step = max_first_step};
}

Result<SpeechTokens> read_speech_tokens(std::span<const MarkToken> marks,
                                        std::string_view generation) {
  SpeechTokens tokens;
  QUIRE_ASSIGN_OR_RETURN(tokens.start, require_mark(marks, "<|startoftranscript|>"));
  QUIRE_ASSIGN_OR_RETURN(tokens.transcribe, require_mark(marks, "<|transcribe|>"));
  QUIRE_ASSIGN_OR_RETURN(tokens.translate, require_mark(marks, "<|translate|>"));
  QUIRE_ASSIGN_OR_RETURN(tokens.no_timestamps, require_mark(marks, "<|notimestamps|>"));
  QUIRE_ASSIGN_OR_RETURN(tokens.end_of_text, require_mark(marks, "<|endoftext|>"));
  tokens.previous = find_mark(marks, "<|startofprev|>");
  // The token has one of two names.
  tokens.no_speech = std::max(find_mark(marks, "<|nospeech|>"), find_mark(marks, "<|nocaptions|>"));
  // Some tokenizers leave the timestamps out. Their ids follow this token.
  tokens.first_timestamp = tokens.no_timestamps + 1;
  for (const MarkToken& mark : marks) {
    if (std::optional<std::string> code = language_of(mark.text))
      tokens.languages.emplace_back(std::move(*code), mark.id);
  }
  std::ranges::sort(tokens.languages, {}, [](const auto& one) { return one.second; });
  QUIRE_RETURN_IF_ERROR(read_generation(generation, tokens));
  return tokens;
}

}  // namespace quire
