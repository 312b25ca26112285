// Anthropic's Messages API over a scripted engine and a real socket.
#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>

#include "server/anthropic/message_events.h"
#include "server/testing/server_fixture.h"

namespace quire::server {
namespace {

namespace json = boost::json;

constexpr std::string_view kReply =
    "<think>Hm.</think>Look.<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": "
    "1}}\n</tool_call>\nDone.";

ServerOptions hermes() {
  ServerOptions options;
  options.reply_format = {find_dialect("hermes"), find_reasoning_style("qwen3")};
  return options;
}

// Returns a body with these members in addition to max_tokens and one message.
std::string body_with(std::string_view members) {
  return fmt::format(
      R"({{"model":"tiny","max_tokens":100,"messages":[{{"role":"user","content":"hi"}}]{}}})",
      members);
}

constexpr std::string_view kTools =
    R"(,"tools":[{"name":"f","description":"d","input_schema":{"type":"object","properties":{"a":{"type":"integer"}}}}])";

std::string prompt_of(const GenerationRequest& request) {
  return ByteCodec().decode(request.prompt_token_ids, false);
}

std::string error_text(const ClientResponse& r) {
  const json::value body = parse(r.body);
  EXPECT_EQ(body.at("type").as_string(), "error") << r.body;
  return fmt::format("{} {}", std::string_view(body.at("error").at("type").as_string()),
                     std::string_view(body.at("error").at("message").as_string()));
}

json::object folded(std::string_view sse) {
  MessageFold fold;
  for (const std::string& event : events_of(sse)) fold.add(parse(event).as_object());
  return fold.finish();
}

TEST_F(ServerTest, MessagesStreamIsExact) {
  start_saying("hi");
  const ClientResponse r = post("/v1/messages", body_with(R"(,"stream":true,"request_id":"r1")"));
  ASSERT_EQ(r.status, 200) << r.body;
  EXPECT_EQ(r.headers.at("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_EQ(r.body,
            R"(event: message_start
data: {"type":"message_start","message":{"id":"msg_r1","type":"message","role":"assistant","model":"tiny","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":19,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"h"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"i"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"input_tokens":19,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":2}}

event: message_stop
data: {"type":"message_stop"}

)");
}

TEST_F(ServerTest, MessagesStreamAndAnswerAreTheSameHoweverDeltasAreCut) {
  const std::string fields = fmt::format(R"({},"request_id":"r1")", kTools);
  std::optional<json::object> first;
  for (const size_t piece : {1u, 2u, 3u, 7u, 1000u}) {
    start({.script = say_in_pieces(kReply, piece)}, hermes());
    const ClientResponse whole = post("/v1/messages", body_with(fields));
    ASSERT_EQ(whole.status, 200) << whole.body;
    const json::object message = parse(whole.body).as_object();
    EXPECT_EQ(json::serialize(message.at("content")),
              R"([{"type":"thinking","thinking":"Hm.","signature":"msg_r1"},)"
              R"({"type":"text","text":"Look."},)" +
                  fmt::format(R"({{"type":"tool_use","id":"{}","name":"f","input":{{"a":1}}}},)",
                              std::string_view(message.at("content").at(2).at("id").as_string())) +
                  R"({"type":"text","text":"Done."}])");
    EXPECT_EQ(message.at("stop_reason").as_string(), "tool_use");
    EXPECT_EQ(message.at("usage").at("output_tokens_details").at("thinking_tokens").as_int64(), 3);
    const ClientResponse streamed = post("/v1/messages", body_with(fields + R"(,"stream":true)"));
    EXPECT_EQ(folded(streamed.body), message) << streamed.body;
    if (!first) first = message;
    EXPECT_EQ(*first, message) << piece;
  }
}

TEST_F(ServerTest, MessagesBecomeThoseOfAChat) {
  start_saying("x");
  const ClientResponse r = post("/v1/messages", R"({"model":"tiny","max_tokens":7,"messages":[
    {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b","cache_control":{"type":"ephemeral"}}]},
    {"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"text","text":"c"},
      {"type":"tool_use","id":"i1","name":"f","input":{"a":1}},{"type":"tool_use","id":"i2","name":"g","input":{}}]},
    {"role":"user","content":[{"type":"tool_result","tool_use_id":"i1","content":"one"},
      {"type":"tool_result","tool_use_id":"i2","content":[{"type":"text","text":"two"}],"is_error":true},{"type":"text","text":"d"}]}],
    "system":[{"type":"text","text":"be brief"}],"temperature":0.5,"top_p":0.9,"top_k":5,"stop_sequences":["a","b","c","d","e"],
    "metadata":{"user_id":"u"}})");
  ASSERT_EQ(r.status, 200) << r.body;
  EXPECT_FALSE(r.headers.contains("x-quire-warning")) << r.head;
  const GenerationRequest request = engine->requests().at(0);
  EXPECT_EQ(
      prompt_of(request),
      "system: be brief\nuser: a\nb\nassistant: c\ntool: one\ntool: two\nuser: d\nassistant:");
  EXPECT_EQ(request.params.max_tokens, 7);
  EXPECT_EQ(request.params.top_k, 5);
  EXPECT_EQ(request.params.temperature, 0.5f);
  EXPECT_EQ(request.params.stop.size(), 5u);
}

TEST_F(ServerTest, MessagesGoOnWithAnOpenAnswer) {
  start_saying("x");
  const ClientResponse r = post("/v1/messages", R"({"max_tokens":7,"messages":[
    {"role":"user","content":"a"},{"role":"assistant","content":"The best is ("}]})");
  ASSERT_EQ(r.status, 200) << r.body;
  EXPECT_EQ(prompt_of(engine->requests().at(0)), "user: a\nassistant: The best is (\n");
}

TEST_F(ServerTest, MessagesStopReasons) {
  const auto ask = [this](FinishReason reason,
                          std::variant<std::monostate, std::string, TokenId> stop) {
    const auto script = [=](const GenerationRequest& request) {
      std::vector<OutputDelta> deltas = say("x", reason)(request);
      deltas.back().stop_reason = stop;
      return deltas;
    };
    start({.script = script});
    const json::value message = parse(post("/v1/messages", body_with("")).body);
    return json::serialize(json::array{message.at("stop_reason"), message.at("stop_sequence")});
  };
  EXPECT_EQ(ask(FinishReason::kStop, {}), R"(["end_turn",null])");
  EXPECT_EQ(ask(FinishReason::kStop, TokenId{3}), R"(["end_turn",null])");
  EXPECT_EQ(ask(FinishReason::kStop, "END"), R"(["stop_sequence","END"])");
  EXPECT_EQ(ask(FinishReason::kLength, {}), R"(["max_tokens",null])");
}

TEST_F(ServerTest, MessagesThinkingIsABudget) {
  start_saying("x", hermes());
  ASSERT_EQ(
      post("/v1/messages", body_with(R"(,"thinking":{"type":"enabled","budget_tokens":9})")).status,
      200);
  ASSERT_TRUE(engine->requests().at(0).reasoning_budget.has_value());
  EXPECT_EQ(engine->requests().at(0).reasoning_budget->max_tokens, 9);
  start_saying("x");
  const ClientResponse plain =
      post("/v1/messages", body_with(R"(,"thinking":{"type":"enabled","budget_tokens":9})"));
  EXPECT_EQ(plain.status, 200) << plain.body;
  EXPECT_TRUE(plain.headers.at("x-quire-warning").starts_with("thinking: no effect")) << plain.head;
}

TEST_F(ServerTest, MessagesToolChoiceAndFormat) {
  start_saying("x", hermes());
  const auto outputs_of = [this](std::string_view members) {
    const ClientResponse r = post("/v1/messages", body_with(members));
    EXPECT_EQ(r.status, 200) << r.body;
    const std::optional<StructuredOutputs> outputs = engine->requests().back().structured_outputs;
    return outputs ? outputs->text : "none";
  };
  EXPECT_EQ(outputs_of(fmt::format(R"({},"tool_choice":{{"type":"auto"}})", kTools)), "none");
  EXPECT_NE(outputs_of(fmt::format(R"({},"tool_choice":{{"type":"any"}})", kTools)), "none");
  EXPECT_NE(outputs_of(fmt::format(R"({},"tool_choice":{{"type":"tool","name":"f"}})", kTools)),
            "none");
  EXPECT_EQ(outputs_of(
                R"(,"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}})"),
            R"({"type":"object"})");
}

TEST_F(ServerTest, MessagesRefusalsNameTheField) {
  start_saying("x");
  const std::pair<std::string, std::string_view> cases[] = {
      {"{}", "invalid_request_error messages: expected at least one message"},
      {R"({"messages":[{"role":"user","content":"a"}]})",
       "invalid_request_error max_tokens: expected an integer >= 1, got none"},
      {body_with(R"(,"temperature":3)"),
       "invalid_request_error temperature: expected a number in [0, 2], got the number 3"},
      {body_with(R"(,"stop_sequences":["a",""])"),
       "invalid_request_error stop_sequences.1: expected 1 to 4096 bytes, got 0"},
      {body_with(R"(,"system":[{"type":"image"}])"),
       R"(invalid_request_error system.0: expected {"type": "text", "text": ...}, got an object)"},
      {body_with(R"(,"tools":[{"name":"f"}])"),
       "invalid_request_error tools.0.input_schema: expected a JSON Schema, got null"},
      {body_with(R"(,"tools":[{"type":"bash_20250124","name":"bash"}])"),
       R"(invalid_request_error tools.0.type: expected "custom" (this server runs no tools of its own), got a string)"},
      {body_with(R"(,"thinking":{"type":"enabled"})"),
       "invalid_request_error thinking.budget_tokens: expected an integer >= 1, got null"},
      {body_with(R"(,"thinking":{"type":"enabled","budget_tokens":100})"),
       "invalid_request_error thinking.budget_tokens: expected less than the 100 of max_tokens, "
       "got 100"},
      {body_with(R"(,"mcp_servers":[{"url":"u"}])"),
       "invalid_request_error mcp_servers: this feature is not available on this server"},
      {R"({"max_tokens":1,"messages":[{"role":"user","content":[{"type":"image"}]}]})",
       "invalid_request_error messages.0.content.0.type: expected text or tool_result, got "
       "'image'; this model reads text alone"},
      {R"({"max_tokens":1,"messages":[{"role":"user","content":"a"},{"role":"bot","content":"a"}]})",
       R"(invalid_request_error messages.1.role: expected "user", "assistant" or "system", got a string)"},
      {R"({"max_tokens":1,"messages":[{"role":"user"}]})",
       "invalid_request_error messages.0.content: expected a string or a list of blocks, got null"},
      {R"({"max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"i","name":"f"}]}]})",
       "invalid_request_error messages.0.content.0.input: expected an object, got null"},
  };
  for (const auto& [body, text] : cases) {
    const ClientResponse r = post("/v1/messages", body);
    EXPECT_EQ(r.status, 400) << body;
    EXPECT_EQ(error_text(r), text) << body;
  }
  const ClientResponse other =
      post("/v1/messages",
           R"({"model":"claude","max_tokens":1,"messages":[{"role":"user","content":"a"}]})");
  EXPECT_EQ(other.status, 404);
  EXPECT_EQ(error_text(other), "not_found_error the model 'claude' does not exist");
}

TEST_F(ServerTest, MessagesKeyIsThatOfEitherHeader) {
  ServerOptions options;
  options.api_keys = {"secret"};
  start_saying("x", options);
  const ClientResponse none = post("/v1/messages", body_with(""));
  EXPECT_EQ(none.status, 401);
  EXPECT_TRUE(error_text(none).starts_with("authentication_error ")) << none.body;
  EXPECT_EQ(post("/v1/messages", body_with(""), {"X-Api-Key: wrong"}).status, 401);
  EXPECT_EQ(post("/v1/messages", body_with(""), {"X-Api-Key: secret"}).status, 200);
  EXPECT_EQ(post("/v1/messages", body_with(""), {"Authorization: Bearer secret"}).status, 200);
}

TEST_F(ServerTest, MessagesThatTheEngineFailsAreErrors) {
  const auto fails = [](const GenerationRequest& request) {
    std::vector<OutputDelta> deltas = say("ab")(request);
    deltas.back().finish_reason = FinishReason::kError;
    return deltas;
  };
  start({.script = fails});
  const ClientResponse whole = post("/v1/messages", body_with(""));
  EXPECT_EQ(whole.status, 500);
  EXPECT_EQ(error_text(whole), "api_error the engine failed");
  const ClientResponse streamed = post("/v1/messages", body_with(R"(,"stream":true)"));
  EXPECT_TRUE(streamed.body.ends_with(
      "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"the "
      "engine failed\"}}\n\n"))
      << streamed.body;
  engine->set_submit_error(resource_exhausted("full"));
  const ClientResponse full = post("/v1/messages", body_with(R"(,"stream":true)"));
  EXPECT_EQ(full.status, 429);
  EXPECT_EQ(error_text(full), "rate_limit_error full");
  engine->set_healthy(false);
  const ClientResponse dead = post("/v1/messages", body_with(""));
  EXPECT_EQ(dead.status, 529);
  EXPECT_TRUE(error_text(dead).starts_with("overloaded_error "));
}

TEST_F(ServerTest, MessagesAreCounted) {
  start_saying("x");
  const std::string_view body =
      R"({"model":"tiny","messages":[{"role":"user","content":"hi"}],"system":"s"})";
  const ClientResponse r = post("/v1/messages/count_tokens", body);
  EXPECT_EQ(r.status, 200);
  EXPECT_EQ(r.body, R"({"input_tokens":29})");
  EXPECT_EQ(error_text(post("/v1/messages/count_tokens", "{}")),
            "invalid_request_error messages: expected at least one message");
  EXPECT_TRUE(engine->requests().empty());
}

}  // namespace
}  // namespace quire::server
