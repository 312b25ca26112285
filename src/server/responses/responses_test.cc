// OpenAI's Responses API over a scripted engine and a real socket.
#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>

#include "server/testing/server_fixture.h"

namespace quire::server {
namespace {

namespace json = boost::json;

constexpr std::string_view kReply =
    "<think>Hm.</think>Look.<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": "
    "1}}\n</tool_call>\nDone.";
constexpr std::string_view kTools =
    R"(,"tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{"a":{"type":"integer"}}}},{"type":"function","name":"g"}])";

ServerOptions hermes() {
  ServerOptions options;
  options.reply_format = {find_dialect("hermes"), find_reasoning_style("qwen3")};
  return options;
}

std::string body_with(std::string_view members) {
  return fmt::format(R"({{"model":"tiny","input":"hi"{}}})", members);
}

std::string prompt_of(const GenerationRequest& request) {
  return ByteCodec().decode(request.prompt_token_ids, false);
}

std::string id_of(const ClientResponse& r) {
  return std::string(parse(r.body).at("id").as_string());
}

std::string text_at(const json::value& object, std::string_view name) {
  return std::string(object.at(name).as_string());
}

// Replaces every id that begins with the response's own digits by "N".
std::string without_ids(std::string text, std::string_view response_id) {
  const std::string digits(response_id.substr(response_id.find('_') + 1));
  for (size_t at; (at = text.find(digits)) != std::string::npos;) text.replace(at, 32, "N");
  return text;
}

// Returns the output of a response from the deltas of its events, and checks it against the final
// events and the events' order.
json::array folded_output(const std::vector<std::string>& events) {
  json::array output, done;
  int64_t sequence = 0;
  for (const std::string& text : events) {
    const json::value event = parse(text);
    EXPECT_EQ(event.at("sequence_number").as_int64(), sequence++);
    const std::string type = text_at(event, "type");
    const auto at = [&]() -> json::object& {
      const auto index = static_cast<size_t>(event.at("output_index").as_int64());
      EXPECT_EQ(index + 1, output.size()) << text;
      json::object& item = output.at(index).as_object();
      if (event.as_object().contains("item_id")) {
        EXPECT_EQ(item.at("id"), event.at("item_id"));
      }
      return item;
    };
    if (type == "response.output_item.added") {
      output.push_back(event.at("item"));
      EXPECT_EQ(text_at(output.back(), "status"), "in_progress");
    } else if (type == "response.content_part.added") {
      at().at("content").as_array().push_back(event.at("part"));
    } else if (type == "response.output_text.delta" || type == "response.reasoning_text.delta") {
      at().at("content").at(0).at("text").as_string() += event.at("delta").as_string();
    } else if (type == "response.function_call_arguments.delta") {
      at().at("arguments").as_string() += event.at("delta").as_string();
    } else if (type == "response.function_call_arguments.done") {
      EXPECT_EQ(at().at("arguments"), event.at("arguments"));
    } else if (type == "response.output_text.done" || type == "response.reasoning_text.done") {
      EXPECT_EQ(at().at("content").at(0).at("text"), event.at("text"));
    } else if (type == "response.content_part.done") {
      EXPECT_EQ(at().at("content").at(0).at("text"), event.at("part").at("text"));
    } else if (type == "response.output_item.done") {
      at()["status"] = event.at("item").at("status");
      EXPECT_EQ(at(), event.at("item").as_object());
      done.push_back(event.at("item"));
    }
  }
  EXPECT_EQ(output, done);
  return output;
}

TEST_F(ServerTest, ResponsesStreamIsExact) {
  start_saying("hi");
  const ClientResponse r = post("/v1/responses", body_with(R"(,"stream":true)"));
  ASSERT_EQ(r.status, 200) << r.body;
  EXPECT_EQ(r.headers.at("content-type"), "text/event-stream; charset=utf-8");
  const std::vector<std::string> events = events_of(r.body);
  ASSERT_EQ(events.size(), 10u) << r.body;
  const json::value first = parse(events[0]);
  const std::string id = text_at(first.at("response"), "id");
  EXPECT_EQ(id.size(), 5u + 32);
  std::string types;
  for (const std::string& event : events) types += text_at(parse(event), "type") + " ";
  EXPECT_EQ(types,
            "response.created response.in_progress response.output_item.added "
            "response.content_part.added response.output_text.delta response.output_text.delta "
            "response.output_text.done response.content_part.done response.output_item.done "
            "response.completed ");
  EXPECT_EQ(text_at(first.at("response"), "status"), "in_progress");
  EXPECT_TRUE(first.at("response").at("output").as_array().empty());
  EXPECT_EQ(
      without_ids(events[2], id),
      R"({"type":"response.output_item.added","output_index":0,"item":{"id":"msg_N00","type":"message","status":"in_progress","content":[],"role":"assistant"},"sequence_number":2})");
  EXPECT_EQ(
      without_ids(events[4], id),
      R"({"type":"response.output_text.delta","item_id":"msg_N00","output_index":0,"content_index":0,"delta":"h","logprobs":[],"sequence_number":4})");
  EXPECT_EQ(
      without_ids(events[8], id),
      R"({"type":"response.output_item.done","output_index":0,"item":{"id":"msg_N00","type":"message","status":"completed","content":[{"type":"output_text","text":"hi","annotations":[],"logprobs":[]}],"role":"assistant"},"sequence_number":8})");
  const json::value last = parse(events[9]).at("response");
  EXPECT_EQ(
      json::serialize(last.at("usage")),
      R"({"input_tokens":19,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":2,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":21})");
  EXPECT_TRUE(r.body.starts_with("event: response.created\ndata: {")) << r.body;
  EXPECT_EQ(r.body.find("[DONE]"), std::string::npos);
}

TEST_F(ServerTest, ResponsesStreamAndAnswerAreTheSameHoweverDeltasAreCut) {
  for (const size_t piece : {1u, 2u, 3u, 7u, 1000u}) {
    start({.script = say_in_pieces(kReply, piece)}, hermes());
    const ClientResponse streamed =
        post("/v1/responses", body_with(fmt::format(R"({},"stream":true)", kTools)));
    const std::vector<std::string> events = events_of(streamed.body);
    const json::value last = parse(events.back());
    EXPECT_EQ(text_at(last, "type"), "response.completed");
    EXPECT_EQ(folded_output(events), last.at("response").at("output").as_array()) << streamed.body;
    // The stored response is the one that was streamed.
    const std::string id = text_at(last.at("response"), "id");
    EXPECT_EQ(parse(get("/v1/responses/" + id).body), last.at("response"));
    const ClientResponse whole = post("/v1/responses", body_with(kTools));
    const json::value response = parse(whole.body);
    const auto items = [](const json::value& of) {
      const std::string call_id = text_at(of.at("output").at(2), "call_id");
      std::string text = json::serialize(of.at("output"));
      text.replace(text.find(call_id), call_id.size(), "C");
      return without_ids(text, text_at(of, "id"));
    };
    EXPECT_EQ(items(response), items(last.at("response")));
    EXPECT_EQ(
        items(response),
        R"([{"id":"rs_N00","type":"reasoning","status":"completed","content":[{"type":"reasoning_text","text":"Hm."}],"summary":[]},)"
        R"({"id":"msg_N01","type":"message","status":"completed","content":[{"type":"output_text","text":"Look.","annotations":[],"logprobs":[]}],"role":"assistant"},)"
        R"({"id":"fc_N02","type":"function_call","status":"completed","call_id":"C","name":"f","arguments":"{\"a\": 1}"},)"
        R"({"id":"msg_N03","type":"message","status":"completed","content":[{"type":"output_text","text":"Done.","annotations":[],"logprobs":[]}],"role":"assistant"}])");
  }
}

TEST_F(ServerTest, ResponsesRepeatTheirRequest) {
  start_saying("x");
  const json::value r =
      parse(post("/v1/responses", body_with(R"(,"temperature":0.5,"max_output_tokens":9,
    "metadata":{"a":"b"},"instructions":"be brief","user":"u","store":false)"))
                .body);
  EXPECT_EQ(r.at("temperature").as_double(), 0.5);
  EXPECT_EQ(r.at("max_output_tokens").as_int64(), 9);
  EXPECT_EQ(text_at(r.at("metadata"), "a"), "b");
  EXPECT_EQ(text_at(r, "instructions"), "be brief");
  EXPECT_FALSE(r.at("store").as_bool());
  EXPECT_EQ(text_at(r, "status"), "completed");
  EXPECT_EQ(get("/v1/responses/" + text_at(r, "id")).status, 404);
  const GenerationRequest request = engine->requests().at(0);
  EXPECT_EQ(request.params.max_tokens, 9);
  EXPECT_EQ(prompt_of(request), "system: be brief\nuser: hi\nassistant:");
}

TEST_F(ServerTest, ResponsesGoOnWithAConversation) {
  start_saying(std::string(kReply), hermes());
  const ClientResponse first =
      post("/v1/responses", body_with(fmt::format(R"({},"instructions":"one")", kTools)));
  const std::string next = fmt::format(
      R"({{"previous_response_id":"{}","instructions":"two","input":[
        {{"type":"function_call_output","call_id":"{}","output":"sunny"}},
        {{"role":"developer","content":[{{"type":"input_text","text":"be kind"}}]}},{{"role":"user","content":"so?"}}]}})",
      id_of(first), text_at(parse(first.body).at("output").at(2), "call_id"));
  const ClientResponse second = post("/v1/responses", next);
  ASSERT_EQ(second.status, 200) << second.body;
  // The instructions of the first response are not carried over, but its items are.
  EXPECT_EQ(prompt_of(engine->requests().at(1)),
            "system: two\nuser: hi\nassistant: Look.\nassistant: Done.\ntool: sunny\nsystem: be "
            "kind\nuser: so?\nassistant:");
  const ClientResponse third =
      post("/v1/responses",
           fmt::format(R"({{"previous_response_id":"{}","input":"and?"}})", id_of(second)));
  const std::string last = prompt_of(engine->requests().at(2));
  EXPECT_TRUE(last.ends_with("Done.\nuser: and?\nassistant:")) << last << third.body;
  EXPECT_NE(last.find("be kind\nuser: so?\nassistant: Look."), std::string::npos) << last;
  // A conversation outlives the responses that it came from.
  TestClient client(server->port());
  EXPECT_EQ(client.request("DELETE", "/v1/responses/" + id_of(first)).status, 200);
  EXPECT_EQ(get("/v1/responses/" + id_of(first)).status, 404);
  EXPECT_EQ(post("/v1/responses", next).status, 404);
  EXPECT_EQ(post("/v1/responses",
                 fmt::format(R"({{"previous_response_id":"{}","input":"and?"}})", id_of(second)))
                .status,
            200);
}

TEST_F(ServerTest, ResponsesInputItemsComeInPages) {
  start_saying("x");
  const std::string id = id_of(post("/v1/responses", R"({"input":[{"role":"user","content":"a"},
    {"role":"assistant","content":[{"type":"output_text","text":"b"}],"id":"mine"},{"role":"user","content":"c"}]})"));
  const auto page = [&](std::string_view query) {
    return parse(get(fmt::format("/v1/responses/{}/input_items{}", id, query)).body);
  };
  const json::value all = page("");
  EXPECT_EQ(all.at("data").as_array().size(), 3u);
  EXPECT_FALSE(all.at("has_more").as_bool());
  EXPECT_EQ(text_at(all.at("data").at(1), "id"), "mine");
  EXPECT_EQ(all.at("first_id"), all.at("data").at(0).at("id"));
  const json::value one = page("?limit=1&order=asc&after=mine");
  EXPECT_EQ(one.at("data").at(0), all.at("data").at(0));
  EXPECT_EQ(page("?limit=2&order=asc").at("has_more").as_bool(), true);
  EXPECT_EQ(get("/v1/responses/" + id + "/input_items?limit=0").status, 400);
  EXPECT_EQ(get("/v1/responses/" + id + "/input_items?after=none").status, 400);
  EXPECT_EQ(get("/v1/responses/" + id + "/other").status, 404);
}

TEST_F(ServerTest, ResponsesThatWereCutAreIncomplete) {
  start({.script = say("ab", FinishReason::kLength)});
  const ClientResponse streamed =
      post("/v1/responses", body_with(R"(,"stream":true,"max_output_tokens":2)"));
  const json::value last = parse(events_of(streamed.body).back());
  EXPECT_EQ(text_at(last, "type"), "response.incomplete");
  for (const json::value& r :
       {last.at("response"), parse(post("/v1/responses", body_with("")).body)}) {
    EXPECT_EQ(text_at(r, "status"), "incomplete");
    EXPECT_EQ(text_at(r.at("incomplete_details"), "reason"), "max_output_tokens");
    EXPECT_EQ(text_at(r.at("output").at(0), "status"), "incomplete");
  }
}

TEST_F(ServerTest, ResponsesInTheBackgroundCanBeFollowed) {
  start({.script = say("hello"), .manual = true});
  const ClientResponse r = post("/v1/responses", body_with(R"(,"background":true)"));
  ASSERT_EQ(r.status, 200) << r.body;
  const std::string path = "/v1/responses/" + id_of(r);
  EXPECT_EQ(text_at(parse(r.body), "status"), "queued");
  engine->push();
  EXPECT_TRUE(
      eventually([&] { return text_at(parse(get(path).body), "status") == "in_progress"; }));
  for (int i = 0; i < 5; ++i) engine->push();
  EXPECT_TRUE(eventually([&] { return text_at(parse(get(path).body), "status") == "completed"; }));
  const json::value done = parse(get(path).body);
  EXPECT_EQ(text_at(done.at("output").at(0).at("content").at(0), "text"), "hello");
  EXPECT_EQ(get(path + "?stream=true").status, 400);
  EXPECT_EQ(post(path + "/cancel", "").status, 400);
}

TEST_F(ServerTest, ResponsesStreamsAreResumedAnywhere) {
  start({.script = say("hello"), .manual = true});
  TestClient client(server->port());
  client.send(http_request("POST", "/v1/responses",
                           body_with(R"(,"background":true,"stream":true)"),
                           {"Content-Type: application/json"}));
  EXPECT_TRUE(eventually([&] { return engine->num_open() == 1; }));
  engine->push();
  engine->push();
  const std::string some = client.receive_some(2000);
  const size_t at = some.find("resp_");
  ASSERT_NE(at, std::string::npos) << some;
  const std::string path = "/v1/responses/" + some.substr(at, 5 + 32);
  client.close();  // the response continues
  for (int i = 0; i < 5; ++i) engine->push();
  EXPECT_TRUE(eventually([&] { return text_at(parse(get(path).body), "status") == "completed"; }));
  const std::vector<std::string> all = events_of(get(path + "?stream=true").body);
  EXPECT_EQ(text_at(parse(all[1]), "type"), "response.queued");
  EXPECT_EQ(folded_output(all), parse(get(path).body).at("output").as_array());
  for (size_t i = 0; i < all.size(); ++i) {
    const auto rest = events_of(get(fmt::format("{}?stream=true&starting_after={}", path, i)).body);
    ASSERT_EQ(rest, std::vector<std::string>(all.begin() + static_cast<int64_t>(i) + 1, all.end()));
  }
  EXPECT_EQ(get(path + "?stream=true&starting_after=x").status, 400);
}

TEST_F(ServerTest, ResponsesInTheBackgroundAreCancelled) {
  start({.script = say("hello"), .manual = true});
  const ClientResponse r = post("/v1/responses", body_with(R"(,"background":true)"));
  const std::string path = "/v1/responses/" + id_of(r);
  EXPECT_EQ(
      post("/v1/responses", fmt::format(R"({{"previous_response_id":"{}","input":"a"}})", id_of(r)))
          .status,
      400);
  const ClientResponse cancelled = post(path + "/cancel", "");
  EXPECT_EQ(cancelled.status, 200) << cancelled.body;
  EXPECT_EQ(text_at(parse(cancelled.body), "status"), "cancelled");
  EXPECT_TRUE(eventually([&] { return engine->num_aborted() == 1; }));
  EXPECT_EQ(post(path + "/cancel", "").status, 200);  // a second time has the same result
  EXPECT_EQ(text_at(parse(get(path).body), "status"), "cancelled");
  // A response that a client waits for ends when its client leaves, and only then.
  TestClient client(server->port());
  client.send(
      http_request("POST", "/v1/responses", body_with(""), {"Content-Type: application/json"}));
  EXPECT_TRUE(eventually([&] { return engine->num_open() == 1; }));
  client.close();
  EXPECT_TRUE(eventually([&] { return engine->num_aborted() == 2; }));
}

TEST_F(ServerTest, ResponsesInTheBackgroundEndWithTheServer) {
  start({.script = say("hello"), .manual = true});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(post("/v1/responses", body_with(R"(,"background":true,"stream":false)")).status, 200);
  }
  EXPECT_EQ(engine->num_open(), 3u);
  server.reset();
  EXPECT_EQ(engine->num_aborted(), 3u);
}

TEST_F(ServerTest, ResponsesThatFailSaySo) {
  const auto fails = [](const GenerationRequest& request) {
    std::vector<OutputDelta> deltas = say("ab")(request);
    deltas.back().finish_reason = FinishReason::kError;
    return deltas;
  };
  start({.script = fails});
  const ClientResponse streamed = post("/v1/responses", body_with(R"(,"stream":true)"));
  const json::value last = parse(events_of(streamed.body).back());
  EXPECT_EQ(text_at(last, "type"), "response.failed");
  EXPECT_EQ(text_at(last.at("response").at("error"), "message"), "the engine failed");
  EXPECT_EQ(post("/v1/responses", body_with("")).status, 500);
  const std::string id = id_of(post("/v1/responses", body_with(R"(,"background":true)")));
  EXPECT_TRUE(eventually(
      [&] { return text_at(parse(get("/v1/responses/" + id).body), "status") == "failed"; }));
  engine->set_submit_error(resource_exhausted("full"));
  const ClientResponse full = post("/v1/responses", body_with(R"(,"background":true)"));
  EXPECT_EQ(full.status, 429);
  EXPECT_EQ(error_message(full), "full");
}

TEST_F(ServerTest, ResponsesTruncateTheOldest) {
  start({.script = say("x"), .max_model_len = 100});
  std::string items;
  for (int i = 0; i < 10; ++i) {
    items += fmt::format(
        R"({{"role":"user","content":"question {0}"}},{{"role":"assistant","content":"answer {0}"}},)",
        i);
  }
  const std::string body = fmt::format(
      R"({{"instructions":"s","input":[{}{{"role":"user","content":"last"}}]}})", items);
  const ClientResponse refused = post("/v1/responses", body);
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(error_param(refused), "input");
  const std::string cut = body.substr(0, body.size() - 1) + R"(,"truncation":"auto"})";
  ASSERT_EQ(post("/v1/responses", cut).status, 200);
  EXPECT_EQ(prompt_of(engine->requests().at(0)),
            "system: s\nuser: question 9\nassistant: answer 9\nuser: last\nassistant:");
  // Input that does not fit by itself is refused even with truncation.
  const std::string one =
      fmt::format(R"({{"input":"{}","truncation":"auto"}})", std::string(200, 'a'));
  const ClientResponse too_long = post("/v1/responses", one);
  EXPECT_EQ(too_long.status, 400);
  EXPECT_EQ(error_param(too_long), "input");
}

TEST_F(ServerTest, ResponsesHoldTextsAndCallsToTheirRules) {
  start_saying("x", hermes());
  const auto outputs_of = [this](std::string_view members) {
    const ClientResponse r = post("/v1/responses", body_with(members));
    EXPECT_EQ(r.status, 200) << r.body;
    const std::optional<StructuredOutputs> outputs = engine->requests().back().structured_outputs;
    return outputs ? outputs->text : "none";
  };
  EXPECT_EQ(outputs_of(R"(,"text":{"format":{"type":"text"}})"), "none");
  EXPECT_EQ(
      outputs_of(
          R"(,"text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"},"strict":true}})"),
      R"({"type":"object"})");
  EXPECT_EQ(outputs_of(kTools), "none");
  const std::string named =
      outputs_of(fmt::format(R"({},"tool_choice":{{"type":"function","name":"f"}})", kTools));
  EXPECT_NE(named.find("\\\"f\\\""), std::string::npos) << named;
  const std::string allowed = outputs_of(fmt::format(
      R"({},"tool_choice":{{"type":"allowed_tools","mode":"required","tools":[{{"type":"function","name":"g"}}]}})",
      kTools));
  EXPECT_EQ(allowed.find("\\\"f\\\""), std::string::npos) << allowed;
  EXPECT_NE(allowed.find("\\\"g\\\""), std::string::npos) << allowed;
}

TEST_F(ServerTest, ResponsesBelongToTheirKey) {
  ServerOptions options;
  options.api_keys = {"one", "two"};
  start_saying("x", options);
  const std::string id = id_of(post("/v1/responses", body_with(""), {"Authorization: Bearer one"}));
  EXPECT_EQ(get("/v1/responses/" + id).status, 401);
  EXPECT_EQ(get("/v1/responses/" + id, {"Authorization: Bearer two"}).status, 404);
  EXPECT_EQ(get("/v1/responses/" + id, {"Authorization: Bearer one"}).status, 200);
}

TEST_F(ServerTest, ResponsesRefusalsNameTheField) {
  start_saying("x");
  const std::pair<std::string, std::string_view> cases[] = {
      {"{}", "input"},
      {R"({"input":[]})", "input"},
      {R"({"input":[3]})", "input.0"},
      {R"({"input":[{"role":"bot","content":"a"}]})", "input.0.role"},
      {R"({"input":[{"role":"user"}]})", "input.0.content"},
      {R"({"input":[{"role":"user","content":[{"type":"input_image"}]}]})",
       "input.0.content.0.image_url"},
      {R"({"input":[{"role":"assistant","content":[{"type":"input_image","image_url":"x"}]}]})",
       "input.0.content.0.type"},
      {R"({"input":[{"role":"user","content":[{"type":"input_image","image_url":"data:,"}]}]})",
       "input"},
      {R"({"input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{"}]})",
       "input.0.arguments"},
      {R"({"input":[{"type":"item_reference","id":"i"}]})", "input.0.type"},
      {body_with(R"(,"store":1)"), "store"},
      {body_with(R"(,"background":true,"store":false)"), "background"},
      {body_with(R"(,"truncation":"none")"), "truncation"},
      {body_with(R"(,"metadata":{"a":1})"), "metadata"},
      {body_with(R"(,"max_output_tokens":0)"), "max_output_tokens"},
      {body_with(R"(,"tools":[{"type":"web_search"}])"), "tools.0.type"},
      {body_with(R"(,"tool_choice":"maybe")"), "tool_choice"},
      {body_with(R"(,"text":{"format":{"type":"xml"}})"), "text.format"},
      {body_with(R"(,"reasoning":{"effort":"huge"})"), "reasoning.effort"},
      {body_with(R"(,"top_logprobs":21)"), "top_logprobs"},
  };
  for (const auto& [body, param] : cases) {
    const ClientResponse r = post("/v1/responses", body);
    EXPECT_EQ(r.status, 400) << body << r.body;
    EXPECT_EQ(error_param(r), param) << body;
  }
  EXPECT_EQ(post("/v1/responses", body_with(R"(,"prompt":{"id":"p"})")).status, 501);
  const ClientResponse unknown =
      post("/v1/responses", body_with(R"(,"previous_response_id":"resp_x")"));
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(error_param(unknown), "previous_response_id");
  EXPECT_EQ(post("/v1/responses/input_tokens", body_with("")).body,
            R"({"object":"response.input_tokens","input_tokens":19})");
}

}  // namespace
}  // namespace quire::server
