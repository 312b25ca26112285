#include "server/openai/prompt_input.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "server/json/json_body.h"

namespace quire::server {
namespace {

namespace json = boost::json;

constexpr std::string_view kForms =
    "expected a string, a list of strings, a list of token ids or a list of such lists";

// In JSON, 3.0 is the integer 3.
std::optional<int64_t> whole_number(const json::value& value) {
  if (value.is_int64()) return value.get_int64();
  constexpr double kLargest = 9007199254740992.0;  // 2^53: above it doubles skip integers
  if (!value.is_double() || std::abs(value.get_double()) > kLargest) return std::nullopt;
  const double number = value.get_double();
  if (std::trunc(number) != number) return std::nullopt;
  return static_cast<int64_t>(number);
}

ApiResult<PromptInfo> text_prompt(const json::string& text, bool add_special_tokens,
                                  const TextCodec& codec) {
  Result<std::vector<TokenId>> ids = codec.encode({text.data(), text.size()}, add_special_tokens);
  if (!ids.ok()) return from_status(ids.status());
  return PromptInfo{std::move(ids).value(), std::string(text)};
}

ApiResult<PromptInfo> id_prompt(const json::value& value, const std::string& where,
                                const ServedModel& model) {
  ApiResult<std::vector<TokenId>> ids = read_token_ids(value, where, model.vocab_size);
  if (!ids.ok()) return ids.error();
  std::string text = model.codec->decode(ids.value(), true);
  return PromptInfo{std::move(ids).value(), std::move(text)};
}

}  // namespace

ApiResult<std::vector<TokenId>> read_token_ids(const json::value& value, const std::string& where,
                                               int32_t vocab_size) {
  if (!value.is_array()) {
    return field_error(where, fmt::format("expected a list of token ids, got {}", describe(value)));
  }
  std::vector<TokenId> ids;
  ids.reserve(value.get_array().size());
  for (const json::value& item : value.get_array()) {
    const std::optional<int64_t> id = whole_number(item);
    if (!id || *id < 0 || *id >= vocab_size) {
      return field_error(
          where, fmt::format("expected token ids in [0, {}), got {}", vocab_size, describe(item)));
    }
    ids.push_back(static_cast<TokenId>(*id));
  }
  return ids;
}

ApiResult<std::vector<PromptInfo>> read_prompts(const json::value& prompt, bool add_special_tokens,
                                                const ServedModel& model, uint32_t max_prompts) {
  const TextCodec& codec = *model.codec;
  std::vector<PromptInfo> prompts;
  const auto take = [&](ApiResult<PromptInfo> one) -> ApiCheck {
    if (!one.ok()) return one.error();
    prompts.push_back(std::move(one).value());
    return std::nullopt;
  };
  if (prompt.is_string()) {
    if (ApiCheck error = take(text_prompt(prompt.get_string(), add_special_tokens, codec)))
      return *error;
    return prompts;
  }
  if (!prompt.is_array()) {
    return field_error("prompt", fmt::format("{}, got {}", kForms, describe(prompt)));
  }
  const json::array& list = prompt.get_array();
  if (list.empty()) return field_error("prompt", "expected at least one prompt, got an empty list");
  if (list[0].is_number()) {
    if (ApiCheck error = take(id_prompt(prompt, "prompt", model))) return *error;
    return prompts;
  }
  if (list.size() > max_prompts) {
    return field_error(
        "prompt", fmt::format("expected at most {} prompts, got {}", max_prompts, list.size()));
  }
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].kind() != list[0].kind() || !(list[i].is_string() || list[i].is_array())) {
      return field_error("prompt",
                         fmt::format("{}, got a list with {}", kForms, describe(list[i])));
    }
    if (ApiCheck error =
            take(list[i].is_string() ? text_prompt(list[i].get_string(), add_special_tokens, codec)
                                     : id_prompt(list[i], fmt::format("prompt.{}", i), model))) {
      return *error;
    }
  }
  return prompts;
}

bool truncate_prompt(const RequestFields& fields, const ServedModel& model,
                     std::vector<TokenId>& ids) {
  if (!fields.truncate_prompt_tokens) return false;
  const int64_t wanted = *fields.truncate_prompt_tokens;
  // -1 leaves room for the answer that was asked for, unless that alone would fill the context.
  const int64_t asked = fields.max_completion_tokens.value_or(fields.max_tokens.value_or(1));
  const int64_t answer = asked < 1 || asked >= model.max_model_len ? 1 : asked;
  const int64_t room =
      model.max_source_len > 0 ? model.max_source_len : model.max_model_len - answer;
  const auto keep = static_cast<size_t>(wanted < 0 ? room : wanted);
  if (ids.size() <= keep) return false;
  if (fields.truncation_side == "right") {
    ids.resize(keep);
  } else {
    ids.erase(ids.begin(), ids.end() - static_cast<std::ptrdiff_t>(keep));
  }
  return true;
}

}  // namespace quire::server
