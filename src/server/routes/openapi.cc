#include "server/routes/openapi.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "base/check.h"
#include "server/anthropic/messages_request.h"
#include "server/anthropic/messages_schemas.h"
#include "server/llama/llama_request.h"
#include "server/llama/llama_schemas.h"
#include "server/ollama/ollama_request.h"
#include "server/ollama/ollama_schemas.h"
#include "server/openai/request_fields.h"
#include "server/pooling/pooling_schemas.h"
#include "server/responses/responses_request.h"
#include "server/responses/responses_schemas.h"
#include "server/routes/route_table.h"
#include "server/speech/speech_schemas.h"

namespace quire::server {
namespace {

namespace json = boost::json;

// Parses a JSON text from this file; a mistake in it is a bug.
json::value literal(std::string_view text) {
  json::error_code ec;
  json::value value = json::parse({text.data(), text.size()}, ec);
  QUIRE_CHECK(!ec, "bad JSON in the API description: {}", text);
  return value;
}

json::object ref(std::string_view name) {
  return {{"$ref", fmt::format("#/components/schemas/{}", name)}};
}

json::value bound(double x) {
  return x == static_cast<double>(static_cast<int64_t>(x)) ? json::value(static_cast<int64_t>(x))
                                                           : json::value(x);
}

std::string_view type_of(const Field& field) {
  if (std::holds_alternative<BoolMember>(field.target)) return "boolean";
  if (std::holds_alternative<IntMember>(field.target)) return "integer";
  if (std::holds_alternative<NumberMember>(field.target)) return "number";
  return "string";
}

json::object field_schema(const Field& field) {
  json::object schema = field.schema.empty() ? json::object{{"type", type_of(field)}}
                                             : literal(field.schema).as_object();
  if (field.min) schema[field.exclusive_min ? "exclusiveMinimum" : "minimum"] = bound(*field.min);
  if (field.max) schema["maximum"] = bound(*field.max);
  // Every field that is not required may be null, which means the same as absent.
  const bool required = field.default_json.empty();
  json::object out;
  if (required) {
    out = std::move(schema);
  } else {
    out["anyOf"] = json::array{std::move(schema), json::object{{"type", "null"}}};
    out["default"] = literal(field.default_json);
  }
  std::string help(field.help);
  if (field.support == FieldSupport::kUnsupported) help += " Not available: refused with 501.";
  if (field.support == FieldSupport::kNoEffect) help += " Accepted for compatibility.";
  out["description"] = help;
  return out;
}

json::object request_schema(Endpoint endpoint, std::span<const Field> table) {
  json::object properties;
  json::array required;
  for (const Field& field : table) {
    if ((field.endpoints & static_cast<uint8_t>(endpoint)) == 0) continue;
    properties[field.name] = field_schema(field);
    if (field.default_json.empty()) required.emplace_back(field.name);
  }
  return {
      {"type", "object"}, {"properties", std::move(properties)}, {"required", std::move(required)}};
}

// Schemas of answers and small requests, by name.
constexpr std::string_view kSchemas = R"json({
"Error": {"type":"object","required":["error"],"properties":{"error":{"type":"object","required":["message","type","param","code"],
  "properties":{"message":{"type":"string"},"type":{"type":"string"},"param":{"type":["string","null"]},"code":{"type":"integer"}}}}},
"Unauthorized": {"type":"object","required":["error"],"properties":{"error":{"type":"string","const":"Unauthorized"}}},
"Usage": {"type":"object","required":["prompt_tokens","total_tokens","completion_tokens"],"properties":{"prompt_tokens":{"type":"integer"},
  "total_tokens":{"type":"integer"},"completion_tokens":{"type":"integer"},"prompt_tokens_details":{"type":["object","null"],
  "properties":{"cached_tokens":{"type":"integer"}}},"completion_tokens_details":{"type":"object","properties":{"reasoning_tokens":{"type":"integer"},
  "accepted_prediction_tokens":{"type":"integer"},"rejected_prediction_tokens":{"type":"integer"}}},"timings":{"$ref":"#/components/schemas/Timings"}}},
"Timings": {"type":"object","description":"Milliseconds by the server's clock, when return_timings asks for them. queue_ms + prompt_ms + decode_ms = last_token_ms.",
  "required":["first_token_ms","last_token_ms","queue_ms","prompt_ms","decode_ms"],"properties":{
  "first_token_ms":{"type":"number","description":"From arrival to the first token."},"last_token_ms":{"type":"number","description":"From arrival to the last token."},
  "queue_ms":{"type":"number","description":"From arrival to the first step that works on the prompt."},
  "prompt_ms":{"type":"number","description":"From that step to the first token."},"decode_ms":{"type":"number","description":"From the first token to the last."}}},
"CompletionLogprobs": {"type":["object","null"],"properties":{"text_offset":{"type":"array","items":{"type":"integer"}},
  "token_logprobs":{"type":"array","items":{"type":["number","null"]}},"tokens":{"type":"array","items":{"type":"string"}},
  "top_logprobs":{"type":"array","items":{"type":["object","null"],"additionalProperties":{"type":"number"}}}}},
"ChatLogprob": {"type":"object","properties":{"token":{"type":"string"},"logprob":{"type":"number"},
  "bytes":{"type":["array","null"],"items":{"type":"integer"}},"top_logprobs":{"type":"array","items":{"type":"object"}}}},
"ChatLogprobs": {"type":["object","null"],"properties":{"content":{"type":["array","null"],"items":{"$ref":"#/components/schemas/ChatLogprob"}}}},
"CompletionChoice": {"type":"object","required":["index","text","logprobs","finish_reason"],"properties":{"index":{"type":"integer"},"text":{"type":"string"},
  "logprobs":{"$ref":"#/components/schemas/CompletionLogprobs"},"finish_reason":{"type":["string","null"],"enum":["stop","length","abort",null]},
  "stop_reason":{"type":["string","integer","null"]},"token_ids":{"type":["array","null"],"items":{"type":"integer"}},
  "prompt_token_ids":{"type":["array","null"],"items":{"type":"integer"}},"prompt_logprobs":{"type":["array","null"]}}},
"CompletionResponse": {"type":"object","required":["id","object","created","model","choices"],"properties":{"id":{"type":"string"},
  "object":{"type":"string","const":"text_completion"},"created":{"type":"integer"},"model":{"type":"string"},
  "choices":{"type":"array","items":{"$ref":"#/components/schemas/CompletionChoice"}},"service_tier":{"type":["string","null"]},
  "system_fingerprint":{"type":["string","null"]},"usage":{"$ref":"#/components/schemas/Usage"},"kv_transfer_params":{"type":["object","null"]}}},
"ChatMessage": {"type":"object","required":["role","content"],"properties":{"role":{"type":"string"},"content":{"type":["string","null"]},
  "refusal":{"type":["string","null"]},"annotations":{"type":["object","null"]},"audio":{"type":["object","null"]},
  "function_call":{"type":["object","null"]},"tool_calls":{"type":"array","items":{"type":"object"}},"reasoning":{"type":["string","null"]}}},
"ChatChoice": {"type":"object","required":["index","message","logprobs","finish_reason"],"properties":{"index":{"type":"integer"},
  "message":{"$ref":"#/components/schemas/ChatMessage"},"logprobs":{"$ref":"#/components/schemas/ChatLogprobs"},
  "finish_reason":{"type":["string","null"],"enum":["stop","length","tool_calls","abort",null]},"stop_reason":{"type":["string","integer","null"]},
  "token_ids":{"type":["array","null"],"items":{"type":"integer"}}}},
"ChatCompletionResponse": {"type":"object","required":["id","object","created","model","choices"],"properties":{"id":{"type":"string"},
  "object":{"type":"string","const":"chat.completion"},"created":{"type":"integer"},"model":{"type":"string"},
  "choices":{"type":"array","items":{"$ref":"#/components/schemas/ChatChoice"}},"service_tier":{"type":["string","null"]},
  "system_fingerprint":{"type":["string","null"]},"usage":{"$ref":"#/components/schemas/Usage"},"prompt_logprobs":{"type":["array","null"]},
  "prompt_token_ids":{"type":["array","null"],"items":{"type":"integer"}},"kv_transfer_params":{"type":["object","null"]}}},
"Model": {"type":"object","required":["id","object","created","owned_by"],"properties":{"id":{"type":"string"},"object":{"type":"string","const":"model"},
  "created":{"type":"integer"},"owned_by":{"type":"string"},"root":{"type":["string","null"]},"parent":{"type":["string","null"]},
  "max_model_len":{"type":["integer","null"]},"permission":{"type":"array","items":{"type":"object"}}}},
"ModelList": {"type":"object","required":["object","data"],"properties":{"object":{"type":"string","const":"list"},
  "data":{"type":"array","items":{"$ref":"#/components/schemas/Model"}}}},
"LoadAdapterRequest": {"type":"object","required":["lora_name","lora_path"],"properties":{"lora_name":{"type":"string"},
  "lora_path":{"type":"string"},"load_inplace":{"type":["boolean","null"]},"is_3d_lora_weight":{"type":["boolean","null"]}}},
"UnloadAdapterRequest": {"type":"object","required":["lora_name"],"properties":{"lora_name":{"type":"string"},"lora_int_id":{"type":["integer","null"]}}},
"TokenizeRequest": {"type":"object","properties":{"model":{"type":["string","null"]},"prompt":{"type":"string"},
  "messages":{"type":"array","minItems":1,"items":{"type":"object","required":["role"]}},"add_special_tokens":{"type":"boolean"},"return_token_strs":{"type":["boolean","null"]},
  "add_generation_prompt":{"type":"boolean"},"continue_final_message":{"type":"boolean"},"tools":{"type":["array","null"],"items":{"type":"object"}},
  "chat_template":{"type":["string","null"]},"chat_template_kwargs":{"type":["object","null"]}},"anyOf":[{"required":["prompt"]},{"required":["messages"]}]},
"TokenizeResponse": {"type":"object","required":["count","max_model_len","tokens"],"properties":{"count":{"type":"integer"},
  "max_model_len":{"type":"integer"},"tokens":{"type":"array","items":{"type":"integer"}},"token_strs":{"type":["array","null"],"items":{"type":"string"}}}},
"DetokenizeRequest": {"type":"object","required":["tokens"],"properties":{"model":{"type":["string","null"]},
  "tokens":{"type":"array","items":{"$ref":"#/components/schemas/TokenId"}}}},
"DetokenizeResponse": {"type":"object","required":["prompt"],"properties":{"prompt":{"type":"string"}}},
"Version": {"type":"object","required":["version"],"properties":{"version":{"type":"string"}}},
"Load": {"type":"object","required":["server_load"],"properties":{"server_load":{"type":"integer"}}},
"Percentiles": {"type":"object","properties":{"p50":{"type":["number","null"]},"p90":{"type":["number","null"]}}},
"Stats": {"type":"object","properties":{"model":{"type":"string"},"version":{"type":"string"},"uptime_s":{"type":"number"},"running":{"type":"integer"},
  "waiting":{"type":"integer"},"requests_total":{"type":"integer"},"prompt_tokens_total":{"type":"integer"},"generation_tokens_total":{"type":"integer"},
  "preemptions_total":{"type":"integer"},"kv_blocks_total":{"type":"integer"},"kv_blocks_used":{"type":"integer"},"kv_blocks_cached":{"type":"integer"},
  "prefix_cache_queries_total":{"type":"integer"},"prefix_cache_hits_total":{"type":"integer"},"ttft_ms":{"$ref":"#/components/schemas/Percentiles"},
  "itl_ms":{"$ref":"#/components/schemas/Percentiles"},"step_ms":{"$ref":"#/components/schemas/Percentiles"}}},
"KvBlocks": {"type":"object","required":["block_size","num_blocks","owners","runs"],"properties":{"block_size":{"type":"integer"},
  "num_blocks":{"type":"integer"},"owners":{"type":"array","items":{"type":"string"}},
  "runs":{"type":"array","items":{"type":"array","items":{"type":"integer"},"minItems":4,"maxItems":4}}}},
"Steps": {"type":"object","required":["hardware","columns","steps"],"properties":{
  "hardware":{"type":["object","null"],"properties":{"name":{"type":"string"},"source":{"type":"string"},
  "bytes_per_s":{"type":"number"},"peaks":{"type":"object","additionalProperties":{"type":"number"}}}},
  "terms":{"type":"array","items":{"type":"string"}},"columns":{"type":"array","items":{"type":"string"}},
  "steps":{"type":"array","items":{"type":"array","items":{"type":"number"}}}}},
"KvExplorePrompt": {"description":"A prompt of /v1/completions, or the messages of /v1/chat/completions, which pass through the chat template.",
  "oneOf":[{"type":"string"},{"type":"array","minItems":1,"items":{"type":"object"}}]},
"KvExploreRequest": {"type":"object","required":["a","b"],"properties":{"a":{"$ref":"#/components/schemas/KvExplorePrompt"},"b":{"$ref":"#/components/schemas/KvExplorePrompt"}}},
"KvExploreSide": {"type":"object","properties":{"tokens":{"type":"array","items":{"type":"string"}}}},
"KvExploreResponse": {"type":"object","properties":{"block_size":{"type":"integer"},"a":{"$ref":"#/components/schemas/KvExploreSide"},
  "b":{"$ref":"#/components/schemas/KvExploreSide"},"shared_tokens":{"type":"integer"},"shared_blocks":{"type":"integer"},
  "cached_blocks_a":{"type":"integer"},"cached_blocks_b":{"type":"integer"}}}
})json";

struct RouteShape {
  std::string_view path;
  std::string_view request;       // schema name; empty: no body
  std::string_view response;      // schema name; empty: see content_type
  std::string_view content_type;  // of an answer that is not JSON; empty: empty body
  std::string_view stream = "";   // events of a stream; empty: OpenAI's chunks
  std::string_view error = "Error";
  std::string_view unauthorized = "Unauthorized";
};
constexpr RouteShape kShapes[] = {
    {"/v1/completions", "CompletionRequest", "CompletionResponse", ""},
    {"/v1/chat/completions", "ChatCompletionRequest", "ChatCompletionResponse", ""},
    {"/v1/messages", "MessagesRequest", "MessagesResponse", "", kMessagesStream, "MessagesError",
     "MessagesError"},
    {"/v1/messages/count_tokens", "MessagesCountRequest", "MessagesCount", "", "", "MessagesError",
     "MessagesError"},
    {"/v1/responses", "ResponsesRequest", "ResponsesResponse", "", kResponsesStream},
    {"/v1/responses/input_tokens", "ResponsesRequest", "ResponsesCount", ""},
    {"/v1/responses/*", "", "ResponsesResponse", ""},
    {"/api/chat", "OllamaChatRequest", "OllamaChatResponse", "", kOllamaStream, "OllamaError",
     "OllamaError"},
    {"/api/generate", "OllamaGenerateRequest", "OllamaGenerateResponse", "", kOllamaStream,
     "OllamaError", "OllamaError"},
    {"/api/embed", "OllamaEmbedRequest", "OllamaEmbedResponse", "", "", "OllamaError",
     "OllamaError"},
    {"/api/tags", "", "OllamaModels", "", "", "OllamaError", "OllamaError"},
    {"/api/ps", "", "OllamaModels", "", "", "OllamaError", "OllamaError"},
    {"/api/show", "OllamaShowRequest", "OllamaModel", "", "", "OllamaError", "OllamaError"},
    {"/api/version", "", "Version", "", "", "OllamaError", "OllamaError"},
    {"/completion", "LlamaCompletionRequest", "LlamaCompletionResponse", "", kLlamaStream},
    {"/infill", "LlamaInfillRequest", "LlamaCompletionResponse", "", kLlamaStream},
    {"/props", "", "LlamaProps", ""},
    {"/slots", "", "LlamaSlots", ""},
    {"/v1/embeddings", "EmbeddingsRequest", "EmbeddingsResponse", ""},
    {"/v2/embed", "CohereEmbedRequest", "CohereEmbedResponse", ""},
    {"/pooling", "PoolingRequest", "PoolingResponse", ""},
    {"/classify", "PoolingRequest", "ClassifyResponse", ""},
    {"/score", "ScoreRequest", "ScoreResponse", ""},
    {"/v1/score", "ScoreRequest", "ScoreResponse", ""},
    {"/rerank", "RerankRequest", "RerankResponse", ""},
    {"/v1/rerank", "RerankRequest", "RerankResponse", ""},
    {"/v2/rerank", "RerankRequest", "RerankResponse", ""},
    {"/v1/audio/transcriptions", "TranscriptionForm", "Transcript", "", kTranscriptStream},
    {"/v1/audio/translations", "TranscriptionForm", "Transcript", "", kTranscriptStream},
    {"/v1/files", "", "Any", ""},
    {"/v1/files/*", "", "Any", ""},
    {"/v1/batches", "", "Any", ""},
    {"/v1/batches/*", "", "Any", ""},
    {"/v1/models", "", "ModelList", ""},
    {"/v1/models/*", "", "Model", ""},
    {"/v1/load_lora_adapter", "LoadAdapterRequest", "", "text/plain"},
    {"/v1/unload_lora_adapter", "UnloadAdapterRequest", "", "text/plain"},
    {"/tokenize", "TokenizeRequest", "TokenizeResponse", ""},
    {"/detokenize", "DetokenizeRequest", "DetokenizeResponse", ""},
    {"/version", "", "Version", ""},
    {"/load", "", "Load", ""},
    {"/metrics", "", "", "text/plain"},
    {"/docs", "", "", "text/html"},
    {"/", "", "", "text/html"},
    {"/web/*", "", "", "application/octet-stream"},
    {"/openapi.json", "", "Any", ""},
    {"/quire/stats", "", "Stats", ""},
    {"/quire/kv/blocks", "", "KvBlocks", ""},
    {"/quire/steps", "", "Steps", ""},
    {"/quire/kv/explore", "KvExploreRequest", "KvExploreResponse", ""},
};

const RouteShape* shape_of(std::string_view path) {
  const auto* const found = std::find_if(std::begin(kShapes), std::end(kShapes),
                                         [&](const RouteShape& s) { return s.path == path; });
  return found == std::end(kShapes) ? nullptr : found;
}

json::object content(std::string_view type, json::value schema) {
  json::object media{{"schema", std::move(schema)}};
  json::object out;
  out[type] = std::move(media);
  return out;
}

json::object error_answer(std::string_view description, std::string_view schema) {
  return {{"description", description}, {"content", content("application/json", ref(schema))}};
}

// Returns the answer to a request with "stream": true.
json::object event_stream(const RouteShape& shape) {
  if (!shape.stream.empty()) {
    return {{"schema", {{"type", "string"}, {"description", shape.stream}}}};
  }
  const std::string_view response = shape.response;
  const std::string_view object = response == "ChatCompletionResponse"
                                      ? std::string_view("chat.completion.chunk")
                                      : std::string_view("text_completion");
  return {
      {"schema",
       {{"type", "string"},
        {"description",
         fmt::format("Server-sent events. Each is \"data: \" and a JSON object with \"object\": "
                     "\"{}\", or with \"error\"; the last is \"data: [DONE]\".",
                     object)}}},
      {"example", "data: {\"id\":\"1\"}\n\ndata: [DONE]\n\n"}};
}

// The server that the document describes, and whether it has keys.
struct Described {
  const ServerOptions& options;
  bool asks_for_keys;
};

bool needs_key(const Route& route, const Described& server) {
  if (!server.asks_for_keys || route.kind == RouteKind::kOpen) return false;
  return route.path != "/metrics" || server.options.guard_metrics;
}

json::object responses_of(const Route& route, const RouteShape* shape, const Described& server) {
  json::object ok{{"description", "OK"}};
  if (shape != nullptr && !shape->response.empty()) {
    json::object body =
        content("application/json",
                shape->response == "Any" ? json::object{{"type", "object"}} : ref(shape->response));
    if (route.mode == RouteMode::kGeneration || route.mode == RouteMode::kSpeech) {
      body[route.path.starts_with("/api/") ? "application/x-ndjson" : "text/event-stream"] =
          event_stream(*shape);
    }
    ok["content"] = std::move(body);
  } else if (shape != nullptr && !shape->content_type.empty()) {
    ok["content"] = content(shape->content_type, json::object{{"type", "string"}});
  }
  const std::string_view error = shape != nullptr ? shape->error : std::string_view("Error");
  json::object out{{"200", std::move(ok)}};
  if (needs_key(route, server)) {
    out["401"] = error_answer("Missing or wrong key",
                              shape != nullptr ? shape->unauthorized : "Unauthorized");
  }
  if (shape != nullptr && !shape->request.empty()) {
    out["400"] = error_answer("The request is wrong", error);
    out["404"] = error_answer("No such model", error);
    out["413"] = error_answer("The body is too large", error);
    out["429"] = error_answer("Too much work; see Retry-After", error);
  } else if (route.path.back() == '*') {
    out["404"] = error_answer("No such thing", error);
  }
  if (route.needs != RouteSwitch::kNone && route.needs != RouteSwitch::kWebPage) {
    out["400"] = error_answer("The request is wrong", error);
    out["404"] = error_answer("This route is switched off", error);
  }
  if (route.kind == RouteKind::kWork) {
    out["408"] = error_answer("The request's deadline passed", error);
    out["500"] = error_answer("The engine failed this request", error);
    out["501"] = error_answer("A feature that is not available", error);
    out["503"] = error_answer("Draining, or the engine is dead", error);
  }
  if (shape == nullptr) out["503"] = json::object{{"description", "Not healthy"}};
  return out;
}

json::object operation_of(const Route& route, const Described& server) {
  const RouteShape* const shape = shape_of(route.path);
  json::object operation{{"summary", route.summary},
                         {"responses", responses_of(route, shape, server)}};
  if (shape != nullptr && !shape->request.empty()) {
    const bool is_form = shape->request == "TranscriptionForm";
    const std::string_view type = is_form ? "multipart/form-data" : "application/json";
    operation["requestBody"] =
        json::object{{"required", true}, {"content", content(type, ref(shape->request))}};
  }
  if (route.path.back() == '*') {
    operation["parameters"] = json::array{json::object{
        {"name", "name"}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}}};
  }
  if (needs_key(route, server))
    operation["security"] = literal(R"([{"bearer":[]},{"api_key":[]}])");
  return operation;
}

json::object paths(const Described& server) {
  json::object out;
  for (const Route& route : route_table()) {
    if (route.needs == RouteSwitch::kWebPage && !server.options.web_page) continue;
    std::string path(route.path);
    if (path.back() == '*') path.replace(path.size() - 1, 1, "{name}");
    json::object& item =
        out[path].is_object() ? out[path].get_object() : out[path].emplace_object();
    if (route.methods.find("GET") != std::string_view::npos)
      item["get"] = operation_of(route, server);
    if (route.methods.find("POST") != std::string_view::npos)
      item["post"] = operation_of(route, server);
    if (route.methods.find("DELETE") != std::string_view::npos)
      item["delete"] = operation_of(route, server);
  }
  return out;
}

}  // namespace

std::string openapi_document(const ServerOptions& options, bool asks_for_keys, int32_t vocab_size) {
  json::object schemas = literal(kSchemas).as_object();
  for (const std::string_view of_room : {kPoolingSchemas, kMessagesSchemas, kResponsesSchemas,
                                         kOllamaSchemas, kLlamaSchemas, kSpeechSchemas}) {
    json::object more = literal(of_room).as_object();
    for (auto& member : more) schemas[member.key()] = std::move(member.value());
  }
  schemas["TokenId"] =
      json::object{{"type", "integer"}, {"minimum", 0}, {"maximum", vocab_size - 1}};
  schemas["CompletionRequest"] = request_schema(Endpoint::kCompletions, field_table());
  schemas["ChatCompletionRequest"] = request_schema(Endpoint::kChat, field_table());
  schemas["MessagesRequest"] = request_schema(Endpoint::kChat, messages_field_table());
  schemas["ResponsesRequest"] = request_schema(Endpoint::kChat, responses_field_table());
  schemas["OllamaChatRequest"] = request_schema(Endpoint::kChat, ollama_chat_field_table());
  schemas["OllamaGenerateRequest"] = request_schema(Endpoint::kChat, ollama_generate_field_table());
  schemas["LlamaCompletionRequest"] = request_schema(Endpoint::kCompletions, llama_field_table());
  schemas["MessagesCountRequest"] = schemas["MessagesRequest"];
  schemas["MessagesCountRequest"].as_object()["required"] = json::array{"messages"};
  json::object document{{"openapi", "3.1.0"},
                        {"info",
                         {{"title", "Quire"},
                          {"version", QUIRE_VERSION},
                          {"description",
                           "OpenAI's API, as vLLM serves it, Anthropic's Messages, and Quire's own "
                           "pages."}}},
                        {"paths", paths({options, asks_for_keys})},
                        {"components", {{"schemas", std::move(schemas)}}}};
  if (asks_for_keys) {
    document["components"].as_object()["securitySchemes"] =
        literal(R"({"bearer":{"type":"http","scheme":"bearer"},)"
                R"("api_key":{"type":"apiKey","in":"header","name":"X-Api-Key"}})");
  }
  if (!options.root_path.empty()) {
    document["servers"] = json::array{json::object{{"url", options.root_path}}};
  }
  return json::serialize(document);
}

}  // namespace quire::server
