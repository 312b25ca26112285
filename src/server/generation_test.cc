// These tests are about completions and chat, with and without streaming, over a scripted engine
// and a real socket.
#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>

#include "server/openai/response_fold.h"
#include "server/testing/server_fixture.h"

namespace quire::server {
namespace {

namespace json = boost::json;

std::vector<std::string> keys(const json::value& object) {
  std::vector<std::string> names;
  for (const auto& member : object.as_object()) names.emplace_back(member.key());
  return names;
}

using Names = std::vector<std::string>;

TEST_F(ServerTest, CompletionPrintsEveryField) {
  start_saying("hello");
  const ClientResponse r =
      post("/v1/completions", R"({"model":"tiny","prompt":"abc"})", {"X-Request-Id: r1"});
  ASSERT_EQ(r.status, 200) << r.body;
  EXPECT_EQ(r.headers.at("content-type"), "application/json");
  const json::value body = parse(r.body);
  EXPECT_EQ(keys(body), (Names{"id", "object", "created", "model", "choices", "service_tier",
                               "system_fingerprint", "usage", "kv_transfer_params"}));
  EXPECT_EQ(body.at("id").as_string(), "cmpl-r1");
  EXPECT_EQ(body.at("object").as_string(), "text_completion");
  EXPECT_EQ(body.at("model").as_string(), "tiny");
  const json::value& choice = body.at("choices").at(0);
  EXPECT_EQ(keys(choice), (Names{"index", "text", "logprobs", "finish_reason", "stop_reason",
                                 "token_ids", "prompt_logprobs", "prompt_token_ids"}));
  EXPECT_EQ(choice.at("text").as_string(), "hello");
  EXPECT_EQ(choice.at("finish_reason").as_string(), "stop");
  EXPECT_TRUE(choice.at("logprobs").is_null());
  EXPECT_EQ(
      json::serialize(body.at("usage")),
      R"({"prompt_tokens":3,"total_tokens":8,"completion_tokens":5,"prompt_tokens_details":null})");
}

TEST_F(ServerTest, CompletionStreamIsExact) {
  start_saying("hi");
  const ClientResponse r = post(
      "/v1/completions",
      R"({"prompt":"abc","stream":true,"request_id":"r2","stream_options":{"include_usage":true}})");
  ASSERT_EQ(r.status, 200) << r.body;
  EXPECT_EQ(r.headers.at("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_TRUE(r.complete);
  std::vector<std::string> events = events_of(r.body);
  ASSERT_EQ(events.size(), 4u) << r.body;
  const std::string created = std::to_string(parse(events[0]).at("created").as_int64());
  const std::string head = R"({"id":"cmpl-r2","object":"text_completion","created":)" + created +
                           R"(,"model":"tiny","choices":)";
  const std::string tail = R"("prompt_token_ids":null,"token_ids":null}]})";
  EXPECT_EQ(
      events[0],
      head + R"([{"index":0,"text":"h","logprobs":null,"finish_reason":null,"stop_reason":null,)" +
          tail);
  EXPECT_EQ(
      events[1],
      head +
          R"([{"index":0,"text":"i","logprobs":null,"finish_reason":"stop","stop_reason":null,)" +
          tail);
  EXPECT_EQ(events[2],
            head + R"([],"usage":{"prompt_tokens":3,"total_tokens":5,"completion_tokens":2}})");
  EXPECT_EQ(events[3], "[DONE]");
}

TEST_F(ServerTest, ChatPrintsEveryField) {
  start_saying("hello");
  const ClientResponse r =
      post("/v1/chat/completions",
           R"({"model":"tiny-alias","messages":[{"role":"user","content":"hi"}]})");
  ASSERT_EQ(r.status, 200) << r.body;
  const json::value body = parse(r.body);
  EXPECT_EQ(keys(body), (Names{"id", "object", "created", "model", "choices", "service_tier",
                               "system_fingerprint", "usage", "prompt_logprobs", "prompt_token_ids",
                               "kv_transfer_params"}));
  EXPECT_EQ(body.at("object").as_string(), "chat.completion");
  EXPECT_EQ(body.at("model").as_string(), "tiny-alias");
  EXPECT_TRUE(body.at("id").as_string().starts_with("chatcmpl-"));
  const json::value& choice = body.at("choices").at(0);
  EXPECT_EQ(keys(choice),
            (Names{"index", "message", "logprobs", "finish_reason", "stop_reason", "token_ids"}));
  EXPECT_EQ(
      json::serialize(choice.at("message")),
      R"({"role":"assistant","content":"hello","refusal":null,"annotations":null,"audio":null,)"
      R"("function_call":null,"reasoning":null})");
  // Without max_tokens, the engine cuts the request to the context.
  const GenerationRequest request = engine->requests().at(0);
  EXPECT_EQ(request.prompt_token_ids.size(), std::string("user: hi\nassistant:").size());
  EXPECT_EQ(request.params.max_tokens, std::numeric_limits<int32_t>::max());
}

TEST_F(ServerTest, ChatStreamIsExact) {
  start_saying("ok");
  const ClientResponse r =
      post("/v1/chat/completions",
           R"({"messages":[{"role":"user","content":"hi"}],"stream":true,"request_id":"c"})");
  ASSERT_EQ(r.status, 200) << r.body;
  std::vector<std::string> events = events_of(r.body);
  ASSERT_EQ(events.size(), 4u) << r.body;
  const std::string created = std::to_string(parse(events[0]).at("created").as_int64());
  const std::string head = R"({"id":"chatcmpl-c","object":"chat.completion.chunk","created":)" +
                           created + R"(,"model":"tiny","choices":[{"index":0,"delta":)";
  EXPECT_EQ(
      events[0],
      head +
          R"({"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null})");
  EXPECT_EQ(events[1],
            head + R"({"content":"o"},"logprobs":null,"finish_reason":null,"token_ids":null}]})");
  EXPECT_EQ(
      events[2],
      head +
          R"({"content":"k"},"logprobs":null,"finish_reason":"stop","stop_reason":null,"token_ids":null}]})");
  EXPECT_EQ(events[3], "[DONE]");
}

TEST_F(ServerTest, StreamedEqualsWhole) {
  start_saying("some text, \"quoted\"\n");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"/v1/completions", R"("prompt":"abc")"},
      {"/v1/completions", R"("prompt":["ab","cde"],"n":2)"},
      {"/v1/completions", R"("prompt":[1,2,3],"logprobs":2,"return_token_ids":true)"},
      {"/v1/completions", R"("prompt":[[1,2],[3]],"echo":true,"logprobs":0)"},
      {"/v1/completions", R"("prompt":"x","return_tokens_as_token_ids":true,"logprobs":1)"},
      {"/v1/chat/completions", R"("messages":[{"role":"user","content":"hi"}],"n":3)"},
      {"/v1/chat/completions",
       R"("messages":[{"role":"user","content":"hi"}],"logprobs":true,"top_logprobs":3)"},
      {"/v1/chat/completions",
       R"("messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}],)"
       R"("echo":true,"return_token_ids":true,"stream_interval":4)"}};
  for (const auto& [path, fields] : cases) {
    const std::string common = "{" + fields + R"(,"seed":1,"request_id":"same")";
    const ClientResponse whole = post(path, common + "}");
    const ClientResponse streamed =
        post(path, common + R"(,"stream":true,"stream_options":{"include_usage":true}})");
    ASSERT_EQ(whole.status, 200) << whole.body;
    ASSERT_EQ(streamed.status, 200) << streamed.body;
    ResponseFold fold(path == "/v1/completions" ? Endpoint::kCompletions : Endpoint::kChat);
    for (const std::string& event : events_of(streamed.body)) {
      if (event == "[DONE]") continue;
      ASSERT_TRUE(fold.add(parse(event).as_object()).ok()) << event;
    }
    json::value expected = parse(whole.body);
    json::value folded = fold.finish();
    expected.as_object().erase("created");
    folded.as_object().erase("created");
    // Only the answer in one piece has these members, because requests with "stream" may not ask
    // for them.
    for (auto& choice : expected.at("choices").as_array()) {
      if (choice.as_object().contains("prompt_logprobs"))
        choice.as_object()["prompt_logprobs"] = nullptr;
    }
    EXPECT_EQ(json::serialize(folded), json::serialize(expected)) << path << " " << fields;
  }
}

TEST_F(ServerTest, ChoiceIndexCountsPromptsTimesN) {
  start_saying("t");
  const ClientResponse r = post("/v1/completions", R"({"prompt":["a","bb","ccc"],"n":2})");
  ASSERT_EQ(r.status, 200) << r.body;
  const json::value body = parse(r.body);
  ASSERT_EQ(body.at("choices").as_array().size(), 6u);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(body.at("choices").at(i).at("index").as_int64(), i);
    EXPECT_EQ(body.at("choices").at(i).at("text").as_string(), "t" + std::to_string(i % 2));
  }
  EXPECT_EQ(body.at("usage").at("prompt_tokens").as_int64(), 6);
  EXPECT_EQ(body.at("usage").at("completion_tokens").as_int64(), 12);
}

TEST_F(ServerTest, EchoRidesOnTheFirstChunk) {
  start_saying("yz");
  const ClientResponse r =
      post("/v1/completions", R"({"prompt":"abc","echo":true,"logprobs":1,"stream":true})");
  const std::vector<std::string> events = events_of(r.body);
  ASSERT_EQ(events.size(), 3u) << r.body;
  const json::value first = parse(events[0]).at("choices").at(0);
  EXPECT_EQ(first.at("text").as_string(), "abcy");
  EXPECT_EQ(json::serialize(first.at("logprobs").at("tokens")), R"(["a","b","c","y"])");
  EXPECT_EQ(json::serialize(first.at("logprobs").at("text_offset")), "[0,1,2,3]");
  EXPECT_TRUE(first.at("logprobs").at("token_logprobs").at(0).is_null());
  EXPECT_TRUE(first.at("logprobs").at("top_logprobs").at(0).is_null());
  const json::value second = parse(events[1]).at("choices").at(0);
  EXPECT_EQ(second.at("text").as_string(), "z");
  EXPECT_EQ(json::serialize(second.at("logprobs").at("text_offset")), "[4]");
}

TEST_F(ServerTest, EchoAloneNeedsNoTokens) {
  start({.script = [](const GenerationRequest&) {
    OutputDelta delta;
    delta.finish_reason = FinishReason::kLength;
    return std::vector{delta};
  }});
  const ClientResponse r =
      post("/v1/completions", R"({"prompt":"abc","echo":true,"max_tokens":0})");
  ASSERT_EQ(r.status, 200) << r.body;
  const json::value body = parse(r.body);
  EXPECT_EQ(body.at("choices").at(0).at("text").as_string(), "abc");
  EXPECT_EQ(body.at("choices").at(0).at("finish_reason").as_string(), "length");
  EXPECT_EQ(body.at("usage").at("completion_tokens").as_int64(), 0);
  EXPECT_EQ(engine->requests().at(0).kind, RequestKind::kPool);
}

TEST_F(ServerTest, PromptLogprobsInOnePiece) {
  start_saying("x");
  const ClientResponse r = post("/v1/completions", R"({"prompt":"abc","prompt_logprobs":0})");
  ASSERT_EQ(r.status, 200) << r.body;
  EXPECT_EQ(
      json::serialize(parse(r.body).at("choices").at(0).at("prompt_logprobs")),
      R"([null,{"98":{"logprob":-1E0,"rank":2,"decoded_token":"b"}},{"99":{"logprob":-1E0,"rank":2,"decoded_token":"c"}}])");
  const ClientResponse chat =
      post("/v1/chat/completions",
           R"({"messages":[{"role":"user","content":"a"}],"prompt_logprobs":0})");
  EXPECT_TRUE(parse(chat.body).at("prompt_logprobs").is_array()) << chat.body;
}

TEST_F(ServerTest, ContinuousUsageCountsUp) {
  start_saying("abc");
  const ClientResponse r =
      post("/v1/chat/completions",
           R"({"messages":[{"role":"user","content":"a"}],"stream":true,)"
           R"("stream_options":{"include_usage":true,"continuous_usage_stats":true}})");
  const std::vector<std::string> events = events_of(r.body);
  ASSERT_EQ(events.size(), 6u) << r.body;
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(parse(events[i]).at("usage").at("completion_tokens").as_int64(), i) << events[i];
  }
  EXPECT_TRUE(parse(events[4]).at("choices").as_array().empty());
  // By itself the field is ignored.
  const ClientResponse plain =
      post("/v1/completions",
           R"({"prompt":"a","stream":true,"stream_options":{"continuous_usage_stats":true}})");
  EXPECT_EQ(plain.body.find("usage"), std::string::npos);
}

// With two choices of two prompts, the last usage has the earliest start and the latest end.
TEST_F(ServerTest, TimingsComeOnlyWhenAskedFor) {
  ScriptedEngine::Options engine;
  engine.script = [](const GenerationRequest& request) {
    std::vector<OutputDelta> deltas;
    const int64_t late_us = request.prompt_token_ids.size() > 1 ? 2'000 : 0;
    for (int32_t i = 0; i < request.num_choices; ++i) {
      deltas.push_back(text_delta(i, "ab", request.params));
      deltas.back().finish_reason = FinishReason::kStop;
      deltas.back().times =
          ChoiceTimes{1'000'000, 1'000'100, 1'004'000 + late_us, 1'010'500 + late_us + i * 100,
                      1'050'500 + late_us + i * 1'000};
    }
    return deltas;
  };
  start(std::move(engine));
  const std::string fields = R"({"prompt":["x","yz"],"n":2,"seed":1)";
  const json::value expected = parse(
      R"({"first_token_ms":10.5,"last_token_ms":53.5,"queue_ms":4.0,"prompt_ms":6.5,"decode_ms":43.0})");
  const ClientResponse whole = post("/v1/completions", fields + R"(,"return_timings":true})");
  ASSERT_EQ(whole.status, 200) << whole.body;
  EXPECT_EQ(parse(whole.body).at("usage").at("timings"), expected) << whole.body;
  const ClientResponse streamed =
      post("/v1/completions", fields + R"(,"return_timings":true,"stream":true})");
  const std::vector<std::string> events = events_of(streamed.body);
  ASSERT_GE(events.size(), 2u) << streamed.body;
  EXPECT_EQ(parse(events[events.size() - 2]).at("usage").at("timings"), expected);
  EXPECT_EQ(post("/v1/completions", fields + "}").body.find("timings"), std::string::npos);
  const ClientResponse usage_alone = post(
      "/v1/completions", fields + R"(,"stream":true,"stream_options":{"include_usage":true}})");
  EXPECT_EQ(usage_alone.body.find("timings"), std::string::npos);
}

TEST_F(ServerTest, ForcedUsageAndDetails) {
  ServerOptions options;
  options.force_include_usage = true;
  options.enable_prompt_tokens_details = true;
  start_saying("a", options);
  const ClientResponse r = post("/v1/completions", R"({"prompt":"a","stream":true})");
  const std::vector<std::string> events = events_of(r.body);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(parse(events[0]).at("usage").at("completion_tokens").as_int64(), 1);
  EXPECT_EQ(parse(events[1]).at("usage").at("prompt_tokens_details").at("cached_tokens").as_int64(),
            0);
}

// The counts of drafts are printed where they are asked for, in the fold as in the stream.
TEST_F(ServerTest, PredictionsAndDraftCounts) {
  ServerOptions options;
  options.per_request_spec_decode_metrics = true;
  start({.script =
             [](const GenerationRequest& request) {
               std::vector<OutputDelta> deltas = say("abc")(request);
               deltas.back().drafts = {.num_steps = 2,
                                       .num_drafts = 8,
                                       .num_accepted = 6,
                                       .num_prediction_drafts = 5,
                                       .num_prediction_accepted = 4};
               return deltas;
             }},
        options);
  const std::string fields =
      R"({"messages":[{"role":"user","content":"hi"}],"num_speculative_tokens":3,"prediction":)";
  for (const char* content :
       {R"("abc")", R"([{"type":"text","text":"ab"},{"type":"text","text":"c"}])"}) {
    const ClientResponse r =
        post("/v1/chat/completions", fields + R"({"type":"content","content":)" + content + "}}");
    ASSERT_EQ(r.status, 200) << r.body;
    const json::value answer = parse(r.body);
    const json::value& details = answer.at("usage").at("completion_tokens_details");
    EXPECT_EQ(details.at("accepted_prediction_tokens").as_int64(), 4);
    EXPECT_EQ(details.at("rejected_prediction_tokens").as_int64(), 1);
    const json::value& metrics = answer.at("metrics").at("speculative_decoding");
    EXPECT_EQ(metrics.at("mean_acceptance_length").as_double(), 4.0);
    EXPECT_EQ(metrics.at("draft_acceptance_rate").as_double(), 0.75);
    EXPECT_EQ(metrics.at("num_spec_steps").as_int64(), 2);
  }
  for (const GenerationRequest& request : engine->requests()) {
    EXPECT_EQ(request.params.prediction_token_ids, (std::vector<TokenId>{'a', 'b', 'c'}));
    EXPECT_EQ(request.params.num_speculative_tokens, 3);
  }
  for (const char* wrong :
       {R"("abc")", R"({"type":"content"})", R"({"type":"x","content":"a"})",
        R"({"type":"content","content":3})", R"({"type":"content","content":[{"type":"text"}]})"}) {
    const ClientResponse r = post("/v1/chat/completions", fields + wrong + "}");
    EXPECT_EQ(r.status, 400) << wrong;
    EXPECT_EQ(parse(r.body).at("error").at("param").as_string(), "prediction") << wrong;
  }
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"a","num_speculative_tokens":65})").status, 400);
}

TEST_F(ServerTest, StreamIntervalKeepsFirstAndLast) {
  start_saying("abcdefgh");
  const ClientResponse r =
      post("/v1/completions", R"({"prompt":"a","stream":true,"stream_interval":3})");
  std::vector<std::string> texts;
  for (const std::string& event : events_of(r.body)) {
    if (event != "[DONE]")
      texts.emplace_back(parse(event).at("choices").at(0).at("text").as_string());
  }
  EXPECT_EQ(texts, (std::vector<std::string>{"a", "bcd", "efg", "h"}));
}

TEST_F(ServerTest, StopReasonIsStringTokenOrNull) {
  start({.script = [](const GenerationRequest& request) {
    std::vector<OutputDelta> deltas = say("ab")(request);
    if (request.params.stop_token_ids.empty()) {
      deltas.back().stop_reason = std::string("END");
    } else {
      deltas.back().stop_reason = TokenId{98};
    }
    return deltas;
  }});
  EXPECT_EQ(parse(post("/v1/completions", R"({"prompt":"a","stop":"END"})").body)
                .at("choices")
                .at(0)
                .at("stop_reason")
                .as_string(),
            "END");
  EXPECT_EQ(parse(post("/v1/completions", R"({"prompt":"a","stop_token_ids":[98]})").body)
                .at("choices")
                .at(0)
                .at("stop_reason")
                .as_int64(),
            98);
}

TEST_F(ServerTest, EngineErrorBeforeAndWithinTheStream) {
  start({.script = [](const GenerationRequest& request) {
    std::vector<OutputDelta> deltas;
    if (request.prompt_token_ids.size() > 1) deltas.push_back(text_delta(0, "so far"));
    OutputDelta last;
    last.finish_reason = FinishReason::kError;
    last.status = internal_error("the logits were not finite");
    deltas.push_back(last);
    return deltas;
  }});
  const ClientResponse whole = post("/v1/completions", R"({"prompt":"ab"})");
  EXPECT_EQ(whole.status, 500);
  EXPECT_EQ(error_type(whole), "InternalServerError");
  for (const std::string prompt : {"a", "ab"}) {
    const ClientResponse r =
        post("/v1/completions", R"({"prompt":")" + prompt + R"(","stream":true})");
    const std::vector<std::string> events = events_of(r.body);
    EXPECT_EQ(r.status, 200);
    ASSERT_EQ(events.size(), prompt.size() + 1) << r.body;
    EXPECT_EQ(
        events[prompt.size() - 1],
        R"({"error":{"message":"the logits were not finite","type":"InternalServerError","param":null,"code":500}})");
    EXPECT_EQ(events.back(), "[DONE]");
  }
}

TEST_F(ServerTest, AnswerCutOffByTheEngineIsAnError) {
  start({.script = [](const GenerationRequest&) {
    std::vector<OutputDelta> deltas = {text_delta(0, "half")};
    deltas.back().finish_reason = FinishReason::kAbort;
    deltas.back().status = unavailable("shut down");
    return deltas;
  }});
  const ClientResponse r = post("/v1/completions", R"({"prompt":"ab"})");
  EXPECT_EQ(r.status, 503) << r.body;
}

TEST_F(ServerTest, DeadlineIs408) {
  ServerOptions options;
  options.request_timeout_ms = 50;
  start({.script =
             [](const GenerationRequest&) {
               OutputDelta last;
               last.finish_reason = FinishReason::kError;
               last.status = deadline_exceeded("the request took longer than 0.05 s");
               return std::vector{last};
             }},
        options);
  const ClientResponse r = post("/v1/completions", R"({"prompt":"ab"})");
  EXPECT_EQ(r.status, 408) << r.body;
  EXPECT_EQ(engine->requests().at(0).timeout_us, 50'000);
}

TEST_F(ServerTest, FullQueueIs429WithRetryAfter) {
  start_saying("x");
  engine->set_submit_error(resource_exhausted("the queue is full"));
  for (const char* stream : {"false", "true"}) {
    const ClientResponse r =
        post("/v1/completions", std::string(R"({"prompt":"ab","stream":)") + stream + "}");
    EXPECT_EQ(r.status, 429) << r.body;
    EXPECT_EQ(r.headers.at("retry-after"), "7");
    EXPECT_EQ(error_type(r), "TooManyRequests");
  }
}

TEST_F(ServerTest, RefusedPromptAbortsItsSiblings) {
  start({.script = say("x"), .manual = true, .max_open = 1});
  const ClientResponse r = post("/v1/completions", R"({"prompt":["a","b"]})");
  EXPECT_EQ(r.status, 429) << r.body;
  EXPECT_EQ(engine->num_open(), 0u);
}

TEST_F(ServerTest, LargePromptGoesThroughAWorker) {
  start({.script = say("x"), .max_model_len = 200'000});
  const std::string prompt(100'000, 'a');
  const ClientResponse r = post("/v1/completions", R"({"prompt":")" + prompt + R"("})");
  ASSERT_EQ(r.status, 200) << r.body.substr(0, 300);
  EXPECT_EQ(parse(r.body).at("usage").at("prompt_tokens").as_int64(), 100'000);
}

TEST_F(ServerTest, SlowOneKeepsOthersGoing) {
  start({.script = say("hello"), .delay_us = 1000});
  TestClient idle(server->port());
  idle.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\n");  // this request is never finished
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"a"})").status, 200);
}

// Returns the content of a chat's stream, folded, without ids and times.
std::string folded_choice(const ClientResponse& r) {
  ResponseFold fold(Endpoint::kChat);
  for (const std::string& event : events_of(r.body)) {
    if (event == "[DONE]") continue;
    EXPECT_TRUE(fold.add(parse(event).as_object()).ok()) << event;
  }
  return json::serialize(fold.finish().at("choices"));
}

TEST_F(ServerTest, ToolCallsAndReasoningAreTakenApart) {
  ServerOptions options;
  options.reply_format = {find_dialect("hermes"), find_reasoning_style("qwen3")};
  start_saying(
      "<think>hm</think>Look.<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1}}</tool_call>"
      "<tool_call>{\"name\":\"g\"}</tool_call>",
      options);
  const std::string head = R"({"request_id":"r","messages":[{"role":"user","content":"hi"}])";
  const std::string tools =
      R"(,"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}])";
  const json::value body = parse(post("/v1/chat/completions", head + tools + "}").body);
  const json::value& choice = body.at("choices").at(0);
  EXPECT_EQ(choice.at("finish_reason").as_string(), "tool_calls");
  EXPECT_EQ(choice.at("message").at("content").as_string(), "Look.");
  EXPECT_EQ(choice.at("message").at("reasoning").as_string(), "hm");
  const json::array& calls = choice.at("message").at("tool_calls").as_array();
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].at("function").at("name").as_string(), "f");
  EXPECT_EQ(calls[0].at("function").at("arguments").as_string(), R"({"a":1})");
  EXPECT_NE(calls[0].at("id"), calls[1].at("id"));
  EXPECT_FALSE(engine->requests().at(0).params.skip_special_tokens);
  // The stream has the same content.
  const ClientResponse streamed = post("/v1/chat/completions", head + tools + R"(,"stream":true})");
  EXPECT_EQ(folded_choice(streamed), json::serialize(body.at("choices")));
  EXPECT_EQ(streamed.body.find("tool_call>"), std::string::npos) << streamed.body;

  const auto message = [&](const std::string& more) {
    return parse(post("/v1/chat/completions", head + more + "}").body).at("choices").at(0);
  };
  const json::value one = message(tools + R"(,"parallel_tool_calls":false)");
  EXPECT_EQ(one.at("message").at("tool_calls").as_array().size(), 1u);
  // "hm" is two tokens of a tokenizer of bytes.
  EXPECT_EQ(body.at("usage").at("completion_tokens_details").at("reasoning_tokens").as_int64(), 2);
  // Without tools in the request nothing is a call. Hidden reasoning is removed with its tokens.
  const json::value plain = message(R"(,"include_reasoning":false,"return_token_ids":true)");
  EXPECT_EQ(plain.at("finish_reason").as_string(), "stop");
  EXPECT_TRUE(plain.at("message").at("reasoning").is_null());
  EXPECT_TRUE(plain.at("message").at("content").as_string().starts_with("Look.<tool_call>"));
  EXPECT_EQ(plain.at("token_ids").at(0).as_int64(), 'L');
}

TEST_F(ServerTest, ToolsOfAModelWithoutAKnownFormatGiveAWarning) {
  start_saying("<function=f>");
  const std::string head = R"({"messages":[{"role":"user","content":"hi"}],)"
                           R"("tools":[{"type":"function","function":{"name":"f"}}])";
  const ClientResponse r = post("/v1/chat/completions", head + "}");
  EXPECT_EQ(r.status, 200);
  EXPECT_NE(r.headers.at("x-quire-warning").find("--tool-call-parser"), std::string::npos);
  const ClientResponse none = post("/v1/chat/completions", head + R"(,"tool_choice":"none"})");
  EXPECT_EQ(none.headers.count("x-quire-warning"), 0u);
}

TEST_F(ServerTest, LoadReportComesWhereItIsAskedFor) {
  start_saying("x");
  const std::string body = R"({"prompt":"a","max_tokens":1})";
  const auto report = [&](const std::string& format) {
    return post("/v1/completions", body, {"Endpoint-Load-Metrics-Format: " + format}).headers;
  };
  EXPECT_TRUE(report("text").at("endpoint-load-metrics").starts_with("TEXT named_metrics."));
  EXPECT_TRUE(report("JSON").at("endpoint-load-metrics").starts_with("JSON {\"named_metrics\""));
  EXPECT_EQ(report("bin").count("endpoint-load-metrics"), 0u);
}

TEST_F(ServerTest, TokensPrintAsIdsWhereTheServerSaysSo) {
  ServerOptions options;
  options.return_tokens_as_token_ids = true;
  start_saying("x", options);
  const auto token = [&](const std::string& more) {
    const json::value body =
        parse(post("/v1/completions", R"({"prompt":"a","logprobs":0)" + more + "}").body);
    return std::string(body.at("choices").at(0).at("logprobs").at("tokens").at(0).as_string());
  };
  EXPECT_EQ(token(""), "token_id:120");
  EXPECT_EQ(token(R"(,"return_tokens_as_token_ids":false)"), "x");
}

// Every format that a parser reads is tried with and without streaming, over HTTP.
TEST_F(ServerTest, ToolCallsOfEveryFormat) {
  const std::pair<const char*, const char*> replies[] = {
      {"hermes", R"(<tool_call>{"name":"f","arguments":{"a":[1]}}</tool_call>)"},
      {"llama3_json", R"({"name": "f", "parameters": {"a":[1]}})"},
      {"mistral", R"([TOOL_CALLS] [{"name": "f", "arguments": {"a":[1]}}])"},
      {"qwen3_coder", "<tool_call>\n<function=f>\n<parameter=a>\n[1]\n</parameter>\n</function>"},
      {"glm45", "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>[1]</arg_value>\n</tool_call>"},
      {"pythonic", "[f(a=[1])]"},
      {"kimi_k2",
       "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
       "{\"a\":[1]}<|tool_call_end|><|tool_calls_section_end|>"},
      {"openai",
       "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary "
       "to=functions.f <|constrain|>json<|message|>{\"a\":[1]}<|call|>"}};
  const std::string request = R"({"request_id":"r","messages":[{"role":"user","content":"hi"}],)"
                              R"("tools":[{"type":"function","function":{"name":"f","parameters":)"
                              R"({"properties":{"a":{"type":"array"}}}}}])";
  for (const auto& [dialect, reply] : replies) {
    ServerOptions options;
    options.reply_format.dialect = find_dialect(dialect);
    start_saying(reply, options);
    const json::value body = parse(post("/v1/chat/completions", request + "}").body);
    const json::value& choice = body.at("choices").at(0);
    EXPECT_EQ(choice.at("finish_reason").as_string(), "tool_calls") << reply;
    const json::value& call = choice.at("message").at("tool_calls").at(0).at("function");
    EXPECT_EQ(call.at("name").as_string(), "f");
    EXPECT_EQ(parse(std::string(call.at("arguments").as_string())), parse(R"({"a":[1]})"));
    const ClientResponse streamed = post("/v1/chat/completions", request + R"(,"stream":true})");
    EXPECT_EQ(folded_choice(streamed), json::serialize(body.at("choices")));
  }
}

}  // namespace
}  // namespace quire::server
