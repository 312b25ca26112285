#include "server/pages/token_pages.h"

#include <boost/json/array.hpp>

#include "server/json/json_body.h"
#include "server/json/json_members.h"
#include "server/llama/llama_door.h"
#include "server/openai/chat_messages.h"
#include "server/openai/prompt_input.h"
#include "server/pages/page.h"

namespace quire::server {

namespace json = boost::json;

namespace {

// The fields that the routes below read.
constexpr std::string_view kChatNames[] = {
    "messages", "add_generation_prompt", "continue_final_message",
    "tools",    "chat_template",         "chat_template_kwargs"};
constexpr std::string_view kTokenizeNames[] = {"model",
                                               "prompt",
                                               "add_special_tokens",
                                               "return_token_strs",
                                               "messages",
                                               "add_generation_prompt",
                                               "continue_final_message",
                                               "tools",
                                               "chat_template",
                                               "chat_template_kwargs"};
constexpr std::string_view kDetokenizeNames[] = {"model", "tokens"};

bool has(const json::object& body, std::string_view name) {
  const auto* const value = body.if_contains(name);
  return value != nullptr && !value->is_null();
}

}  // namespace

ApiResult<std::string> chat_text(json::object& body, const PrepareContext& context) {
  json::object chat;
  for (const std::string_view name : kChatNames) {
    if (auto* const value = body.if_contains(name)) chat[name] = std::move(*value);
  }
  ApiResult<ParsedFields> parsed = parse_fields(std::move(chat), Endpoint::kChat, false);
  if (!parsed.ok()) return parsed.error();
  ApiResult<RenderedChat> rendered = render_chat(parsed.value().fields, context);
  if (!rendered.ok()) return rendered.error();
  return std::move(rendered.value().prompt);
}

namespace {

// Returns the text that /tokenize is about: `prompt`, or `messages` rendered by the chat template.
ApiResult<std::string> text_to_tokenize(json::object& body, const PrepareContext& context) {
  if (const auto* const prompt = body.if_contains("prompt"); prompt && !prompt->is_null()) {
    if (!prompt->is_string()) {
      return field_error("prompt", fmt::format("expected a string, got {}", describe(*prompt)));
    }
    return std::string(prompt->get_string());
  }
  if (!has(body, "messages")) return field_error("prompt", "expected a prompt or messages");
  return chat_text(body, context);
}

ApiCheck check_requested_model(const json::object& body, const ServedModel& served) {
  if (!has(body, "model")) return std::nullopt;
  const json::value& model = body.at("model");
  if (!model.is_string()) {
    return field_error("model", fmt::format("expected a string, got {}", describe(model)));
  }
  return check_model(std::string(model.get_string()), served);
}

HttpResponse tokenize(const HttpRequest& request, const PrepareContext& context) {
  ApiResult<json::object> body = parse_body(request, context.options.limits);
  if (!body.ok()) return error_response(body.error());
  if (has(body.value(), "content")) return llama_tokenize(body.value(), context.model);
  ApiResult<std::string> warning =
      check_names(body.value(), kTokenizeNames, context.options.strict_fields);
  if (!warning.ok()) return error_response(warning.error());
  if (ApiCheck error = check_requested_model(body.value(), context.model))
    return error_response(*error);
  // The defaults are those of the endpoint that would get this text. A chat template adds its own
  // BOS.
  bool add_special = has(body.value(), "prompt") || !has(body.value(), "messages");
  bool with_strings = false;
  if (ApiCheck error = read_flag(body.value(), "add_special_tokens", add_special)) {
    return error_response(*error);
  }
  if (ApiCheck error = read_flag(body.value(), "return_token_strs", with_strings)) {
    return error_response(*error);
  }
  ApiResult<std::string> text = text_to_tokenize(body.value(), context);
  if (!text.ok()) return error_response(text.error());
  Result<std::vector<TokenId>> ids = context.model.codec->encode(text.value(), add_special);
  if (!ids.ok()) return error_response(from_status(ids.status()));

  json::array tokens, strings;
  for (const TokenId id : *ids) {
    tokens.emplace_back(id);
    if (with_strings) strings.emplace_back(context.model.codec->token_piece(id));
  }
  json::object answer{
      {"count", ids->size()},
      {"max_model_len", context.model.max_model_len},
      {"tokens", std::move(tokens)},
      {"token_strs", with_strings ? json::value(std::move(strings)) : json::value()}};
  return with_warning(json_page(answer), warning.value());
}

HttpResponse detokenize(const HttpRequest& request, const PrepareContext& context) {
  ApiResult<json::object> body = parse_body(request, context.options.limits);
  if (!body.ok()) return error_response(body.error());
  if (ApiCheck error = check_requested_model(body.value(), context.model))
    return error_response(*error);
  ApiResult<std::string> warning =
      check_names(body.value(), kDetokenizeNames, context.options.strict_fields);
  if (!warning.ok()) return error_response(warning.error());
  const auto* const tokens = body.value().if_contains("tokens");
  if (tokens == nullptr)
    return error_response(field_error("tokens", "expected a list of token ids, got none"));
  ApiResult<std::vector<TokenId>> ids = read_token_ids(*tokens, "tokens", context.model.vocab_size);
  if (!ids.ok()) return error_response(ids.error());
  const std::string text = context.model.codec->decode(ids.value(), true);
  // The text is given under vLLM's name and under llama.cpp's.
  return with_warning(json_page(json::object{{"prompt", text}, {"content", text}}),
                      warning.value());
}

HttpResponse tokenizer_info(const HttpRequest&, const PrepareContext& context) {
  if (!context.model.tokenizer_config.empty()) return json_page(context.model.tokenizer_config);
  return error_response(api_error(404, "the model has no tokenizer_config.json"));
}

constexpr Door kTokenize = page_door(&tokenize);
constexpr Door kDetokenize = page_door(&detokenize);
constexpr Door kTokenizerInfo = page_door(&tokenizer_info);

using M = RouteMode;
using K = RouteKind;
using S = RouteSwitch;

const Route kTokenRoutes[] = {
    {"/tokenize", "POST", K::kGuarded, M::kBySize, kTokenize, "Text or messages to token ids."},
    {"/detokenize", "POST", K::kGuarded, M::kBySize, kDetokenize, "Token ids to text."},
    {"/tokenizer_info", "GET", K::kGuarded, M::kInline, kTokenizerInfo,
     "The tokenizer's configuration (--enable-tokenizer-info-endpoint).", S::kTokenizerInfo},
};

}  // namespace

std::span<const Route> token_routes() { return kTokenRoutes; }

}  // namespace quire::server
