#include "server/anthropic/messages_door.h"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "server/anthropic/message_writer.h"
#include "server/anthropic/messages_error.h"
#include "server/anthropic/messages_request.h"
#include "server/json/json_body.h"

namespace quire::server {
namespace {

namespace json = boost::json;

ApiResult<ParsedFields> read_request(const HttpRequest& request, const PrepareContext& context) {
  ApiResult<json::object> body = parse_body(request, context.options.limits);
  if (!body.ok()) return body.error();
  return parse_fields(std::move(body).value(), Endpoint::kChat, context.options.strict_fields,
                      messages_field_table());
}

ApiCheck check_budget(const RequestFields& f) {
  if (!f.max_tokens) return field_error("max_tokens", "expected an integer >= 1, got none");
  if (!f.thinking_token_budget || *f.thinking_token_budget < *f.max_tokens) return std::nullopt;
  return field_error("thinking.budget_tokens",
                     fmt::format("expected less than the {} of max_tokens, got {}", *f.max_tokens,
                                 *f.thinking_token_budget));
}

// Clients ask every model to think, so a model that does not reason ignores the request.
void drop_unknown_thinking(ParsedFields& parsed, const PrepareContext& context) {
  const ReplyFormat& format = context.options.reply_format;
  const bool reasons = format.reasoning != nullptr || (context.model.reply_syntax != nullptr &&
                                                       context.model.reply_syntax->is_harmony());
  if (!parsed.fields.thinking_token_budget || reasons) return;
  parsed.fields.thinking_token_budget.reset();
  add_warning(
      "thinking: no effect, the model's chat template tells no reasoning (--reasoning-parser)",
      parsed.warning);
}

ApiResult<PreparedCall> prepare(const HttpRequest& request, const PrepareContext& context) {
  ApiResult<ParsedFields> parsed = read_request(request, context);
  if (!parsed.ok()) return parsed.error();
  if (ApiCheck error = check_budget(parsed.value().fields)) return *error;
  drop_unknown_thinking(parsed.value(), context);
  const int64_t max_tokens = *parsed.value().fields.max_tokens;
  ApiResult<PreparedCall> call =
      prepare_fields(std::move(parsed).value(), request, Endpoint::kChat, "msg_", context);
  if (!call.ok()) return call;
  ResponseShape& shape = call.value().shape;
  // The first event has the counts of the prompt, the last one those of the whole message.
  shape.include_usage = shape.continuous_usage = shape.prompt_tokens_details = true;
  call.value().writer =
      std::make_unique<MessageWriter>(MessageShape{.id = shape.id,
                                                   .model = shape.model,
                                                   .max_tokens = max_tokens,
                                                   .max_model_len = context.model.max_model_len},
                                      shape.stream);
  return call;
}

HttpResponse count_tokens(const HttpRequest& request, const PrepareContext& context) {
  ApiResult<ParsedFields> parsed = read_request(request, context);
  if (!parsed.ok()) return messages_error_response(parsed.error());
  RequestFields& f = parsed.value().fields;
  if (const ApiCheck error = check_model(f.model, context.model)) {
    return messages_error_response(*error);
  }
  const ApiResult<RenderedChat> chat = render_chat(f, context);
  if (!chat.ok()) return messages_error_response(chat.error());
  const Result<std::vector<TokenId>> ids = context.model.codec->encode(chat.value().prompt, false);
  if (!ids.ok()) return messages_error_response(from_status(ids.status()));
  const auto count = static_cast<int64_t>(ids->size());
  return {200, "application/json", json::serialize(json::object{{"input_tokens", count}}), {}};
}

}  // namespace

const Door kMessagesDoor{&prepare, &count_tokens, nullptr, &messages_error_response};

namespace {

using M = RouteMode;
using K = RouteKind;

const Route kMessagesRoutes[] = {
    {"/v1/messages", "POST", K::kWork, M::kGeneration, kMessagesDoor,
     "Answer a conversation, as Anthropic's."},
    {"/v1/messages/count_tokens", "POST", K::kGuarded, M::kBySize, kMessagesDoor,
     "How many tokens a request of /v1/messages has."},
};

}  // namespace

std::span<const Route> messages_routes() { return kMessagesRoutes; }

}  // namespace quire::server
