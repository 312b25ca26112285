#include "server/llama/llama_door.h"

#include <boost/json/serialize.hpp>
#include <utility>

#include "engine/observe/engine_stats.h"
#include "server/json/json_body.h"
#include "server/json/json_members.h"
#include "server/json/json_response.h"
#include "server/llama/fill_in.h"
#include "server/llama/llama_request.h"
#include "server/llama/llama_writer.h"

namespace quire::server {
namespace {

namespace json = boost::json;

json::object settings_of(const SamplingParams& p, const PrepareContext& context) {
  json::array stop;
  for (const std::string& text : p.stop) stop.emplace_back(text);
  return {{"n_ctx", context.model.max_model_len},
          {"n_predict", p.max_tokens},
          {"seed", p.seed ? json::value(*p.seed) : json::value(-1)},
          {"temperature", p.temperature},
          {"top_k", p.top_k},
          {"top_p", p.top_p},
          {"min_p", p.min_p},
          {"repeat_penalty", p.repetition_penalty},
          {"presence_penalty", p.presence_penalty},
          {"frequency_penalty", p.frequency_penalty},
          {"stop", std::move(stop)},
          {"ignore_eos", p.ignore_eos}};
}

ApiResult<PreparedCall> prepare(json::object body, const HttpRequest& request,
                                const PrepareContext& context) {
  ApiResult<ParsedFields> parsed = parse_fields(std::move(body), Endpoint::kCompletions,
                                                context.options.strict_fields, llama_field_table());
  if (!parsed.ok()) return parsed.error();
  RequestFields& f = parsed.value().fields;
  f.return_timings = true;
  if (!f.max_tokens) f.max_tokens = context.model.max_model_len;
  ApiResult<PreparedCall> call =
      prepare_fields(std::move(parsed).value(), request, Endpoint::kCompletions, "llama-", context);
  if (!call.ok()) return call;
  const ResponseShape& shape = call.value().shape;
  const PromptInfo& prompt = shape.prompts.front();
  call.value().writer = std::make_unique<LlamaWriter>(
      LlamaWriter::Head{.streams = shape.stream,
                        .model = shape.model,
                        .prompt = prompt.text,
                        .num_prompt_tokens = std::ssize(prompt.token_ids),
                        .settings = settings_of(call.value().requests.front().params, context)});
  return call;
}

ApiResult<PreparedCall> prepare_completion(const HttpRequest& request,
                                           const PrepareContext& context) {
  ApiResult<json::object> body = parse_body(request, context.options.limits);
  if (!body.ok()) return body.error();
  return prepare(std::move(body).value(), request, context);
}

ApiResult<PreparedCall> prepare_infill(const HttpRequest& request, const PrepareContext& context) {
  ApiResult<json::object> body = parse_body(request, context.options.limits);
  if (!body.ok()) return body.error();
  const std::optional<FillInTokens> tokens = find_fill_in_tokens(*context.model.codec);
  if (!tokens) {
    return api_error(501,
                     "expected a model with tokens for what stands before and behind a gap (such "
                     "as <|fim_prefix|>), got one without");
  }
  const ApiResult<FillIn> gap = read_fill_in(body.value());
  if (!gap.ok()) return gap.error();
  const Result<std::vector<TokenId>> prompt =
      fill_in_prompt(gap.value(), *tokens, *context.model.codec);
  if (!prompt.ok()) return from_status(prompt.status());
  json::array ids;
  for (const TokenId id : *prompt) ids.emplace_back(id);
  body.value()["prompt"] = std::move(ids);
  return prepare(std::move(body).value(), request, context);
}

HttpResponse props(const HttpRequest&, const PrepareContext& context) {
  const ApiResult<SamplingParams> defaults =
      resolve_sampling(RequestFields{}, Endpoint::kCompletions, context);
  if (!defaults.ok()) return error_response(defaults.error());
  return json_response(json::object{
      {"default_generation_settings",
       {{"n_ctx", context.model.max_model_len},
        {"params", settings_of(defaults.value(), context)}}},
      {"total_slots", context.model.engine->stats().max_num_seqs},
      {"model_alias", context.model.names.front()},
      {"model_path", context.model.root},
      {"modalities",
       {{"vision", context.model.images != nullptr}, {"audio", context.model.speech != nullptr}}},
      {"build_info", "quire"}});
}

// Requests have no slots in Quire: as many slots are shown busy as requests are running.
HttpResponse slots(const HttpRequest&, const PrepareContext& context) {
  const EngineStats stats = context.model.engine->stats();
  json::array all;
  for (int32_t i = 0; i < stats.max_num_seqs; ++i) {
    all.push_back(json::object{{"id", i},
                               {"n_ctx", context.model.max_model_len},
                               {"is_processing", i < stats.num_requests_running}});
  }
  return json_response(all);
}

}  // namespace

HttpResponse llama_tokenize(const json::object& body, const ServedModel& model) {
  const json::value& content = body.at("content");
  if (!content.is_string()) return error_response(wrong_value("content", "a text", content));
  bool add_special = false, with_pieces = false;
  if (ApiCheck error = read_flag(body, "add_special", add_special)) return error_response(*error);
  if (ApiCheck error = read_flag(body, "with_pieces", with_pieces)) return error_response(*error);
  const Result<std::vector<TokenId>> ids =
      model.codec->encode(std::string_view(content.get_string()), add_special);
  if (!ids.ok()) return error_response(from_status(ids.status()));
  json::array tokens;
  for (const TokenId id : *ids) {
    if (with_pieces) {
      tokens.push_back(json::object{{"id", id}, {"piece", model.codec->token_piece(id)}});
    } else {
      tokens.emplace_back(id);
    }
  }
  return json_response(json::object{{"tokens", std::move(tokens)}});
}

const Door kLlamaCompletionDoor{&prepare_completion, nullptr, nullptr, &error_response};
const Door kLlamaInfillDoor{&prepare_infill, nullptr, nullptr, &error_response};

namespace {

constexpr Door kPropsDoor = page_door(&props);
constexpr Door kSlotsDoor = page_door(&slots);

using M = RouteMode;
using K = RouteKind;

const Route kLlamaRoutes[] = {
    {"/completion", "POST", K::kWork, M::kGeneration, kLlamaCompletionDoor,
     "Continue a text, as llama.cpp's."},
    {"/infill", "POST", K::kWork, M::kGeneration, kLlamaInfillDoor,
     "The text between two others, as llama.cpp's."},
    {"/props", "GET", K::kGuarded, M::kWorker, kPropsDoor,
     "The served model and its defaults, as llama.cpp's."},
    {"/slots", "GET", K::kGuarded, M::kWorker, kSlotsDoor,
     "How many requests run, as llama.cpp's slots."},
};

}  // namespace

std::span<const Route> llama_routes() { return kLlamaRoutes; }

}  // namespace quire::server
