#include "server/responses/responses_door.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <utility>
#include <vector>

#include "server/http/auth.h"
#include "server/json/json_body.h"
#include "server/responses/response_input.h"
#include "server/responses/response_store.h"
#include "server/responses/response_writer.h"
#include "server/responses/responses_request.h"
#include "server/responses/stored_routes.h"

namespace quire::server {
namespace {

namespace json = boost::json;

// A request that has been read, with its whole conversation.
struct ResponseRequest {
  ParsedFields parsed;  // without messages
  ResponseOptions options;
  json::object response;  // the parts of the answer that are known already
  std::shared_ptr<ResponseTurn> previous;
  json::array messages;
};

ApiCheck find_previous(const HttpRequest& request, const PrepareContext& context,
                       ResponseRequest& r) {
  if (!r.options.previous_response_id) return std::nullopt;
  const std::string& id = *r.options.previous_response_id;
  const std::shared_ptr<StoredResponse> stored =
      context.responses == nullptr
          ? nullptr
          : context.responses->find(id, owner_of(request), context.arrival_us);
  if (stored != nullptr && (r.previous = stored->turn()) != nullptr) return std::nullopt;
  ApiError error = api_error(
      stored == nullptr ? 404 : 400,
      stored == nullptr
          ? fmt::format(
                "Previous response with id {} not found (it was made with \"store\": false, "
                "by another key, or has been forgotten)",
                in_quotes(id))
          : fmt::format("previous_response_id: expected a response that has ended, got {}",
                        in_quotes(id)));
  error.param = "previous_response_id";
  return error;
}

// Returns the instructions, then the earlier turns, then the request's input.
json::array conversation_of(const ResponseRequest& r) {
  std::vector<const ResponseTurn*> turns;
  for (const ResponseTurn* turn = r.previous.get(); turn != nullptr;
       turn = turn->previous().get()) {
    turns.push_back(turn);
  }
  json::array messages;
  ItemConversation conversation(messages);
  if (r.options.instructions)
    conversation.add_message("system", json::string(*r.options.instructions));
  std::reverse(turns.begin(), turns.end());
  for (const ResponseTurn* turn : turns) {
    conversation.add(turn->input());
    conversation.add(turn->output());
  }
  conversation.add(r.options.input);
  return messages;
}

void keep_allowed_tools(const std::vector<std::string>& allowed, json::array& tools) {
  json::array kept;
  for (json::value& tool : tools) {
    const json::string& name = tool.at("function").at("name").as_string();
    const bool is_allowed = std::any_of(allowed.begin(), allowed.end(), [&](const std::string& a) {
      return name == json::string_view(a);
    });
    if (is_allowed) kept.push_back(std::move(tool));
  }
  tools = std::move(kept);
}

ApiResult<ResponseRequest> read_request(const HttpRequest& request, std::string_view id,
                                        const PrepareContext& context) {
  ApiResult<json::object> body = parse_body(request, context.options.limits);
  if (!body.ok()) return body.error();
  ResponseRequest r;
  r.response =
      response_of_request(body.value(), id, context.model.names.front(), context.created_s);
  ApiResult<ResponseOptions> options = take_response_options(body.value(), id);
  if (!options.ok()) return options.error();
  r.options = std::move(options).value();
  ApiResult<ParsedFields> parsed =
      read_fields(std::move(body).value(), Endpoint::kChat, context.options.strict_fields,
                  responses_field_table());
  if (!parsed.ok()) return parsed.error();
  r.parsed = std::move(parsed).value();
  RequestFields& f = r.parsed.fields;
  if (f.model && !f.model->empty()) r.response["model"] = *f.model;
  if (r.options.allowed_tools) keep_allowed_tools(*r.options.allowed_tools, f.tools);
  if (ApiCheck error = find_previous(request, context, r)) return *error;
  r.messages = conversation_of(r);
  return r;
}

// Returns the places where a conversation may be cut, which are those before messages of the user.
std::vector<size_t> places_to_cut(const json::array& messages) {
  std::vector<size_t> places;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].at("role") == "user") places.push_back(i);
  }
  return places;
}

// Returns the conversation from `place` on, after the messages of the system.
json::array cut_at(const json::array& messages, size_t place) {
  json::array kept;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (i >= place || messages[i].at("role") == "system") kept.push_back(messages[i]);
  }
  return kept;
}

ApiResult<PreparedCall> prepare_messages(const ResponseRequest& r, json::array messages,
                                         const HttpRequest& headers,
                                         const PrepareContext& context) {
  ParsedFields parsed = r.parsed;
  parsed.fields.messages = std::move(messages);
  if (ApiCheck error = check_fields(parsed.fields, Endpoint::kChat)) return *error;
  ApiResult<PreparedCall> call =
      prepare_fields(std::move(parsed), headers, Endpoint::kChat, "resp_", context);
  if (call.ok() || !call.error().param.value_or("").starts_with("messages")) return call;
  ApiError error = call.error();
  error.param = "input";  // the client sent no messages
  return error;
}

bool is_too_long(const ApiResult<PreparedCall>& call) {
  return !call.ok() && call.error().param == "input_tokens";
}

ApiResult<PreparedCall> naming_input(ApiResult<PreparedCall> call) {
  if (!is_too_long(call)) return call;
  ApiError error = call.error();
  error.param = "input";  // the client gave no input_tokens
  return error;
}

// With truncation, this finds the longest end of the conversation that fits. Later places give
// shorter prompts, so a binary search finds the first place that fits.
ApiResult<PreparedCall> prepare_conversation(ResponseRequest& r, const HttpRequest& headers,
                                             const PrepareContext& context) {
  ApiResult<PreparedCall> call = prepare_messages(r, r.messages, headers, context);
  if (!is_too_long(call) || !r.options.truncates) return naming_input(std::move(call));
  const std::vector<size_t> places = places_to_cut(r.messages);
  size_t low = 1, high = places.size();  // the first place that fits is in [low, high]
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    ApiResult<PreparedCall> tried =
        prepare_messages(r, cut_at(r.messages, places[middle]), headers, context);
    if (is_too_long(tried)) {
      low = middle + 1;
    } else {
      high = middle;
      call = std::move(tried);
    }
  }
  return naming_input(std::move(call));
}

// The id must be one that nobody can guess, whatever id the client sends.
HttpRequest without_request_id(const HttpRequest& request) {
  HttpRequest bare;
  for (const auto& header : request.headers) {
    if (!equals_ignoring_case(header.first, "X-Request-Id")) bare.headers.push_back(header);
  }
  return bare;
}

ApiResult<PreparedCall> prepare(const HttpRequest& request, const PrepareContext& context) {
  const std::string id = "resp_" + context.random_id;
  ApiResult<ResponseRequest> read = read_request(request, id, context);
  if (!read.ok()) return read.error();
  ResponseRequest& r = read.value();
  ApiResult<PreparedCall> call = prepare_conversation(r, without_request_id(request), context);
  if (!call.ok()) return call;
  ResponseShape& shape = call.value().shape;
  shape.include_usage = shape.prompt_tokens_details = true;
  const bool is_background = r.options.is_background;
  if (is_background) r.response["status"] = "queued";
  const auto store =
      context.responses != nullptr ? context.responses : std::make_shared<ResponseStore>(0, 0);
  StoredResponse::Begin begin{
      .id = id,
      .owner = owner_of(request),
      .created_us = context.arrival_us,
      .is_background = is_background,
      .keeps_events = is_background && shape.stream,
      .previous = std::move(r.previous),
      .input = std::make_shared<const json::array>(std::move(r.options.input)),
      .response = std::move(r.response)};
  const std::shared_ptr<StoredResponse> stored =
      r.options.stores ? store->add(std::move(begin)) : store->make(std::move(begin));
  if (is_background) {
    call.value().detached = std::make_shared<BackgroundResponse>(stored, store, shape.stream);
  }
  call.value().writer = std::make_unique<ResponseWriter>(
      stored, store, shape.stream || is_background, !is_background);
  return call;
}

HttpResponse count_input(const HttpRequest& request, const PrepareContext& context) {
  ApiResult<ResponseRequest> read = read_request(request, "resp_count", context);
  if (!read.ok()) return error_response(read.error());
  RequestFields& f = read.value().parsed.fields;
  if (const ApiCheck error = check_model(f.model, context.model)) return error_response(*error);
  f.messages = std::move(read.value().messages);
  const ApiResult<RenderedChat> chat = render_chat(f, context);
  if (!chat.ok()) return error_response(chat.error());
  const Result<std::vector<TokenId>> ids = context.model.codec->encode(chat.value().prompt, false);
  if (!ids.ok()) return error_response(from_status(ids.status()));
  const json::object body{{"object", "response.input_tokens"},
                          {"input_tokens", static_cast<int64_t>(ids->size())}};
  return {200, "application/json", json::serialize(body), {}};
}

}  // namespace

const Door kResponsesDoor{&prepare, &count_input, &serve_stored_response, &error_response};

namespace {

using M = RouteMode;
using K = RouteKind;

const Route kResponsesRoutes[] = {
    {"/v1/responses", "POST", K::kWork, M::kGeneration, kResponsesDoor,
     "Answer a conversation, as OpenAI's Responses API."},
    {"/v1/responses/input_tokens", "POST", K::kGuarded, M::kBySize, kResponsesDoor,
     "How many tokens a request of /v1/responses has."},
    {"/v1/responses/*", "GET POST DELETE", K::kGuarded, M::kDoor, kResponsesDoor,
     "A response that is kept: read it or its stream (GET ID, ?stream=true&starting_after=N), its "
     "input (GET ID/input_items), cancel it (POST ID/cancel), forget it (DELETE ID).",
     RouteSwitch::kNone, RouteModel::kNone},
};

}  // namespace

std::span<const Route> responses_routes() { return kResponsesRoutes; }

}  // namespace quire::server
