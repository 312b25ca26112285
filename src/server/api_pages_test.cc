// These tests are about routes that do not generate, and about every way in which a request is
// refused.
#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>
#include <fstream>
#include <sstream>

#include "server/testing/server_fixture.h"
#include "tests/support/test_data.h"

namespace quire::server {
namespace {

namespace json = boost::json;

TEST_F(ServerTest, ATemplateOfTheRequestServesAModelThatHasNone) {
  has_chat_template = false;
  ServerOptions options;
  options.trust_request_chat_template = true;
  start_saying("hi", options);
  const std::string chat = R"({"messages":[{"role":"user","content":"a"}])";
  const ClientResponse without = post("/v1/chat/completions", chat + "}");
  EXPECT_EQ(without.status, 400);
  EXPECT_NE(error_message(without).find("the model has no chat template"), std::string::npos);
  const ClientResponse with =
      post("/v1/chat/completions", chat + R"(,"chat_template":"{{ messages }}"})");
  EXPECT_EQ(with.status, 200) << with.body;
}

TEST_F(ServerTest, Models) {
  start_saying("x");
  const json::value list = parse(get("/v1/models").body);
  EXPECT_EQ(list.at("object").as_string(), "list");
  ASSERT_EQ(list.at("data").as_array().size(), 2u);
  const json::value& card = list.at("data").at(0);
  EXPECT_EQ(card.at("id").as_string(), "tiny");
  EXPECT_EQ(card.at("object").as_string(), "model");
  EXPECT_EQ(card.at("created").as_int64(), 1'700'000'000);
  EXPECT_EQ(card.at("root").as_string(), "tiny-root");
  EXPECT_TRUE(card.at("parent").is_null());
  EXPECT_EQ(card.at("max_model_len").as_int64(), 1024);
  EXPECT_EQ(card.at("permission").as_array().size(), 1u);
  EXPECT_EQ(parse(get("/v1/models/tiny%2Dalias").body).at("id").as_string(), "tiny-alias");
  const ClientResponse missing = get("/v1/models/other/one");
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(error_param(missing), "model");
}

TEST_F(ServerTest, TokenizeAndBack) {
  start_saying("x");
  EXPECT_EQ(post("/tokenize", R"({"prompt":"ab"})").body,
            R"({"count":2,"max_model_len":1024,"tokens":[97,98],"token_strs":null})");
  EXPECT_EQ(post("/tokenize", R"({"prompt":"ab","return_token_strs":true})").body,
            R"({"count":2,"max_model_len":1024,"tokens":[97,98],"token_strs":["a","b"]})");
  const json::value chat =
      parse(post("/tokenize", R"({"messages":[{"role":"u","content":"hi"}]})").body);
  EXPECT_EQ(chat.at("count").as_int64(), 16);
  EXPECT_EQ(post("/detokenize", R"({"tokens":[97,98]})").body, R"({"prompt":"ab","content":"ab"})");
  EXPECT_EQ(post("/detokenize", R"({"tokens":[97,300]})").status, 400);
  EXPECT_EQ(post("/detokenize", R"({"tokens":"ab"})").status, 400);
  EXPECT_EQ(post("/detokenize", "{}").status, 400);
  EXPECT_EQ(post("/tokenize", "{}").status, 400);
  EXPECT_EQ(post("/tokenize", R"({"prompt":"a","model":"no"})").status, 404);
  EXPECT_EQ(post("/tokenize", R"({"prompt":"a","model":1})").status, 400);
  const ClientResponse wrong = post("/tokenize", R"({"prompt":"a","add_special_tokens":"no"})");
  EXPECT_EQ(wrong.status, 400);
  EXPECT_EQ(error_message(wrong), "add_special_tokens: expected true or false, got a string");
  EXPECT_EQ(post("/tokenize", R"({"prompt":"a","return_token_strs":1})").status, 400);
}

TEST_F(ServerTest, UnknownFieldsOfTheSmallRoutesAreNamed) {
  start_saying("x");
  const std::pair<const char*, const char*> calls[] = {
      {"/tokenize", R"({"prompt":"ab","add_special_token":false})"},
      {"/tokenize", R"({"messages":[{"role":"u","content":"hi"}],"add_special_token":false})"},
      {"/detokenize", R"({"tokens":[97],"add_special_token":false})"},
      {"/quire/kv/explore", R"({"a":"x","b":"y","add_special_token":false})"}};
  for (const auto& [path, body] : calls) {
    const ClientResponse r = post(path, body);
    EXPECT_EQ(r.status, 200) << path << r.body;
    EXPECT_EQ(r.headers.at("x-quire-warning"), "unknown field add_special_token has no effect");
  }
  EXPECT_EQ(post("/tokenize", R"({"prompt":"ab"})").headers.count("x-quire-warning"), 0u);
  ServerOptions strict;
  strict.strict_fields = true;
  start_saying("x", strict);
  for (const auto& [path, body] : calls) {
    const ClientResponse r = post(path, body);
    EXPECT_EQ(r.status, 400) << path;
    EXPECT_EQ(error_param(r), "add_special_token");
  }
}

TEST_F(ServerTest, QuirePages) {
  start_saying("x");
  const json::value stats = parse(get("/quire/stats").body);
  for (const char* name :
       {"model", "version", "uptime_s", "running", "waiting", "requests_total",
        "prompt_tokens_total", "generation_tokens_total", "preemptions_total", "kv_blocks_total",
        "kv_blocks_used", "kv_blocks_cached", "prefix_cache_queries_total",
        "prefix_cache_hits_total", "ttft_ms", "itl_ms", "step_ms"}) {
    EXPECT_TRUE(stats.as_object().contains(name)) << name;
  }
  EXPECT_EQ(json::serialize(stats.at("ttft_ms")), R"({"p50":2.5E2,"p90":null})");
  EXPECT_EQ(json::serialize(stats.at("itl_ms")), R"({"p50":null,"p90":null})");
  EXPECT_EQ(
      get("/quire/kv/blocks").body,
      R"({"block_size":4,"num_blocks":7,"owners":["cmpl-a"],"runs":[[1,0,-1,0],[2,3,0,1],[1,4,0,2],[2,1,-1,0],[1,2,-1,0]]})");
  EXPECT_EQ(
      post("/quire/kv/explore", R"({"a":"abcdefghij","b":"abcdefgXY"})").body,
      R"({"block_size":4,"a":{"tokens":["a","b","c","d","e","f","g","h","i","j"]},)"
      R"("b":{"tokens":["a","b","c","d","e","f","g","X","Y"]},"shared_tokens":7,"shared_blocks":1,)"
      R"("cached_blocks_a":2,"cached_blocks_b":2})");
  EXPECT_EQ(post("/quire/kv/explore", R"({"a":"x"})").status, 400);
}

TEST_F(ServerTest, RootPathIsServedWithItAndWithout) {
  ServerOptions options;
  options.root_path = "/v2/tiny/";
  start_saying("x", options);
  EXPECT_EQ(get("/v1/models/tiny").status, 200);
  EXPECT_EQ(get("/v2/tiny/v1/models/tiny").status, 200);
  EXPECT_EQ(get("/v2/tiny").headers.at("content-type"), "text/html; charset=utf-8");
  EXPECT_EQ(get("/v2/tinyv1/models").status, 404);
  EXPECT_EQ(post("/v2/tiny/v1/completions", R"({"prompt":"a","max_tokens":1})").status, 200);
}

// A model's table of embeddings is often longer than its tokenizer's vocabulary.
TEST_F(ServerTest, TokenIdsUpToTheModelsVocabularyAreTaken) {
  vocab_size = 300;
  start_saying("x");
  const auto status = [&](const std::string& fields) {
    return post("/v1/completions", "{\"max_tokens\":1," + fields + "}").status;
  };
  EXPECT_EQ(status(R"("prompt":[299])"), 200);
  EXPECT_EQ(status(R"("prompt":[300])"), 400);
  EXPECT_EQ(status(R"("prompt":"a","logit_bias":{"299":1})"), 200);
  EXPECT_EQ(status(R"("prompt":"a","logit_bias":{"300":1})"), 400);
  EXPECT_EQ(status(R"("prompt":"a","allowed_token_ids":[299])"), 200);
  EXPECT_EQ(status(R"("prompt":"a","allowed_token_ids":[300])"), 400);
  EXPECT_EQ(status(R"("prompt":"a","stop_token_ids":[299])"), 200);
  EXPECT_EQ(post("/detokenize", R"({"tokens":[299]})").status, 200);
}

// More pauses wait than there are workers. Routes that need a worker are still answered.
TEST_F(ServerTest, AWaitingPauseHoldsNoWorker) {
  ServerOptions options;
  options.enable_dev_endpoints = true;
  options.num_worker_threads = 1;
  start({.script = say({"x"}), .pauses_at_once = false}, options);
  TestClient waiting(server->port());
  waiting.send(http_request("POST", "/pause?mode=wait", ""));
  ASSERT_TRUE(eventually([&] { return engine->paused(); }));
  EXPECT_EQ(post("/reset_prefix_cache", "").status, 200);
  engine->end_pause();
  EXPECT_EQ(waiting.receive().body, R"({"status":"paused"})");
}

TEST_F(ServerTest, EngineIsControlledOnlyWhereThatIsSwitchedOn) {
  start_saying("x");
  EXPECT_EQ(post("/pause", "").status, 404);
  ServerOptions options;
  options.enable_dev_endpoints = true;
  start_saying("x", options);
  EXPECT_EQ(post("/pause?mode=wait", "").body, R"({"status":"paused"})");
  EXPECT_EQ(engine->pause_mode(), PauseMode::kWait);
  EXPECT_EQ(get("/is_paused").body, R"({"is_paused":true})");
  EXPECT_EQ(post("/resume", "").body, R"({"status":"resumed"})");
  EXPECT_EQ(post("/pause?wait_for_inflight_requests=perhaps", "").status, 400);
  EXPECT_EQ(post("/sleep?level=2", "").headers.count("x-quire-warning"), 1u);
  EXPECT_EQ(get("/is_sleeping").body, R"({"is_sleeping":true})");
  EXPECT_EQ(post("/wake_up?tags=weights", "").status, 200);
  EXPECT_EQ(get("/is_sleeping").body, R"({"is_sleeping":true})");
  EXPECT_EQ(post("/wake_up?tags=weights&tags=kv_cache", "").status, 200);
  EXPECT_EQ(get("/is_sleeping").body, R"({"is_sleeping":false})");
  EXPECT_EQ(post("/wake_up?tags=soul", "").status, 400);
  // Each id is tried in the three forms that a request's id may have.
  EXPECT_EQ(post("/abort_requests", R"({"request_ids":["a"]})").body,
            R"({"status":"aborted","aborted":3})");
  EXPECT_EQ(post("/abort_requests", R"({"request_ids":[1]})").status, 400);
  EXPECT_EQ(post("/reset_prefix_cache", "").status, 200);
  EXPECT_EQ(parse(get("/server_info?config_format=json").body)
                .at("vllm_config")
                .at("max_model_len")
                .as_int64(),
            1024);
}

// A list of messages is rendered as a chat, with the beginning of the assistant's turn.
TEST_F(ServerTest, ExploreRendersMessages) {
  start_saying("x");
  const json::value answer =
      parse(post("/quire/kv/explore",
                 R"({"a":[{"role":"system","content":"s"},{"role":"user","content":"hi"}],)"
                 R"("b":"system: s\nuser: ho"})")
                .body);
  std::string rendered;
  for (const json::value& token : answer.at("a").at("tokens").as_array()) {
    rendered += token.as_string();
  }
  EXPECT_EQ(rendered, "system: s\nuser: hi\nassistant:");
  EXPECT_EQ(answer.at("shared_tokens").as_int64(), 17);
  for (const char* body :
       {R"({"a":[],"b":"x"})", R"({"a":[1],"b":"x"})", R"({"a":{"messages":[]},"b":"x"})",
        R"({"a":[{"role":"refuse","content":"x"}],"b":"x"})", R"({"a":"x","b":7})"}) {
    EXPECT_EQ(post("/quire/kv/explore", body).status, 400) << body;
  }
}

TEST_F(ServerTest, PagesForPeople) {
  start_saying("x");
  EXPECT_EQ(get("/").headers.at("content-type"), "text/html; charset=utf-8");
  EXPECT_NE(get("/docs").body.find("<html"), std::string::npos);
  EXPECT_EQ(get("/web/no-such-file").status, 404);
  EXPECT_EQ(get("/web/../secret").status, 404);
  EXPECT_EQ(parse(get("/load").body).at("server_load").as_int64(), 0);
  EXPECT_FALSE(parse(get("/version").body).at("version").as_string().empty());
}

TEST_F(ServerTest, OpenApiNamesEveryRouteAndField) {
  start_saying("x");
  const json::value doc = parse(get("/openapi.json").body);
  for (const char* path :
       {"/v1/completions", "/v1/chat/completions", "/v1/models", "/v1/models/{name}", "/tokenize",
        "/detokenize", "/health", "/metrics", "/quire/kv/explore"}) {
    EXPECT_TRUE(doc.at("paths").as_object().contains(path)) << path;
  }
  const auto& chat = doc.at("components").at("schemas").at("ChatCompletionRequest");
  EXPECT_EQ(json::serialize(chat.at("required")), R"(["messages"])");
  EXPECT_EQ(chat.at("properties").at("temperature").at("anyOf").at(0).at("maximum").as_int64(), 2);
  // Every $ref refers to an existing schema.
  const std::string text = json::serialize(doc);
  const std::string mark = "\"#/components/schemas/";
  for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
    const size_t begin = at + mark.size();
    const std::string name = text.substr(begin, text.find('"', begin) - begin);
    EXPECT_TRUE(doc.at("components").at("schemas").as_object().contains(name)) << name;
  }
}

struct Refusal {
  const char* path;
  std::string body;
  int status;
  const char* param;
};

TEST_F(ServerTest, EveryRefusalIsClear) {
  start_saying("x");
  const std::string chat = R"("messages":[{"role":"user","content":"a"}])";
  std::string many_prompts = "[\"a\"";
  for (int i = 0; i < 1024; ++i) many_prompts += ",\"a\"";
  many_prompts += "]";
  constexpr const char* kC = "/v1/completions";
  constexpr const char* kH = "/v1/chat/completions";
  const std::vector<Refusal> cases = {
      {kC, "", 400, "null"},
      {kC, "[1]", 400, "null"},
      {kC, "{", 400, "null"},
      {kC, R"({"prompt":"a"} x)", 400, "null"},
      {kC, "{\"prompt\":\"\xff\"}", 400, "null"},
      {kC, std::string(100, '[') + std::string(100, ']'), 400, "null"},
      {kC, "{}", 400, "prompt"},
      {kC, R"({"prompt":""})", 400, "prompt"},
      {kC, R"({"prompt":[]})", 400, "prompt"},
      {kC, R"({"prompt":7})", 400, "prompt"},
      {kC, R"({"prompt":["a",1]})", 400, "prompt"},
      {kC, R"({"prompt":[1,"a"]})", 400, "prompt"},
      {kC, R"({"prompt":[999]})", 400, "prompt"},
      {kC, R"({"prompt":[-1]})", 400, "prompt"},
      {kC, R"({"prompt":[[1],[1.5]]})", 400, "prompt.1"},
      {kC, R"({"prompt":")" + std::string(1024, 'a') + "\"}", 400, "input_tokens"},
      {kC, R"({"prompt":"a","model":"nope"})", 404, "model"},
      {kC, R"({"prompt":"a","max_tokens":0})", 400, "max_tokens"},
      {kC, R"({"prompt":"a","max_tokens":-1})", 400, "max_tokens"},
      {kC, R"({"prompt":"a","max_tokens":"3"})", 400, "max_tokens"},
      {kC, R"({"prompt":"a","min_tokens":17})", 400, "min_tokens"},
      {kC, R"({"prompt":"a","n":0})", 400, "n"},
      {kC, R"({"prompt":"a","n":16385})", 400, "n"},
      {kC, R"({"prompt":"a","n":2000})", 400, "n"},
      {kC, R"({"prompt":["a","b"],"n":1000})", 400, "n"},
      {kC, "{\"prompt\":" + many_prompts + "}", 400, "prompt"},
      {kC, R"({"prompt":"a","model":"a\nb"})", 404, "model"},
      {kC, R"({"prompt":"a","temperature":2.1})", 400, "temperature"},
      {kC, R"({"prompt":"a","temperature":-0.1})", 400, "temperature"},
      {kC, R"({"prompt":"a","temperature":"hot"})", 400, "temperature"},
      {kC, R"({"prompt":"a","top_p":0})", 400, "top_p"},
      {kC, R"({"prompt":"a","top_k":-2})", 400, "top_k"},
      {kC, R"({"prompt":"a","min_p":1.5})", 400, "min_p"},
      {kC, R"({"prompt":"a","presence_penalty":3})", 400, "presence_penalty"},
      {kC, R"({"prompt":"a","frequency_penalty":-3})", 400, "frequency_penalty"},
      {kC, R"({"prompt":"a","repetition_penalty":0})", 400, "repetition_penalty"},
      {kC, R"({"prompt":"a","logit_bias":{"x":1}})", 400, "logit_bias"},
      {kC, R"({"prompt":"a","logit_bias":{"300":1}})", 400, "logit_bias"},
      {kC, R"({"prompt":"a","seed":1.5})", 400, "seed"},
      {kC, R"({"prompt":"a","seed":99999999999999999999})", 400, "seed"},
      {kC, R"({"prompt":"a","stop":["a","b","c","d","e"]})", 400, "stop"},
      {kC, R"({"prompt":"a","stop":""})", 400, "stop"},
      {kC, R"({"prompt":"a","stop_token_ids":[300]})", 400, "stop_token_ids"},
      {kC, R"({"prompt":"a","bad_words":[""]})", 400, "bad_words"},
      {kC, R"({"prompt":"a","allowed_token_ids":[]})", 400, "allowed_token_ids"},
      {kC, R"({"prompt":"a","allowed_token_ids":[300]})", 400, "allowed_token_ids"},
      {kC, R"({"prompt":"a","logprobs":21})", 400, "logprobs"},
      {kC, R"({"prompt":"a","logprobs":-2})", 400, "logprobs"},
      {kC, R"({"prompt":"a","logprobs":-1})", 400, "logprobs"},
      {kC, R"({"prompt":"a","prompt_logprobs":1,"stream":true})", 400, "prompt_logprobs"},
      {kC, R"({"prompt":"a","stream_options":{}})", 400, "stream_options"},
      {kC, R"({"prompt":"a","stream":true,"stream_options":{"include_usage":1}})", 400,
       "stream_options.include_usage"},
      {kC, R"({"prompt":"a","stream_interval":0})", 400, "stream_interval"},
      {kC, R"({"prompt":"a","cache_salt":""})", 400, "cache_salt"},
      {kC, R"({"prompt":"a","priority":1})", 400, "priority"},
      {kC, R"({"prompt":"a","request_id":"a b"})", 400, "request_id"},
      {kC, R"({"prompt":"a","truncate_prompt_tokens":-2})", 400, "truncate_prompt_tokens"},
      {kC, R"({"prompt":"a","truncation_side":"up"})", 400, "truncation_side"},
      {kC, R"({"prompt":"a","suffix":"b"})", 501, "suffix"},
      {kC, R"({"prompt":"a","use_beam_search":1})", 400, "use_beam_search"},
      {kC, R"({"prompt":"a","use_beam_search":true,"stream":true})", 400, "stream"},
      {kC, R"({"prompt":"a","use_beam_search":true,"length_penalty":17})", 400, "length_penalty"},
      {kC, R"({"prompt":"a","use_beam_search":true,"early_stopping":"soon"})", 400,
       "early_stopping"},
      {kC, R"({"prompt":"a","early_stopping":true})", 400, "early_stopping"},
      {kC, R"({"prompt":"a","best_of":1,"n":2})", 400, "best_of"},
      {kC, R"({"prompt":"a","best_of":2,"stream":true})", 400, "best_of"},
      {kC, R"({"prompt":"a","best_of":2,"use_beam_search":true})", 400, "best_of"},
      {kC, R"({"prompt":"a","prompt_embeds":"AAAA"})", 501, "prompt_embeds"},
      {kC, R"({"prompt":"a","structured_outputs":{}})", 400, "structured_outputs"},
      {kC, R"({"prompt":"a","structured_outputs":{"regex":"a","choice":["b"]}})", 400,
       "structured_outputs"},
      {kC, R"({"prompt":"a","structured_outputs":{"regex":" "}})", 400, "structured_outputs.regex"},
      {kC, R"({"prompt":"a","structured_outputs":{"choice":[]}})", 400,
       "structured_outputs.choice"},
      {kC, R"({"prompt":"a","structured_outputs":{"lark":"x"}})", 400, "structured_outputs"},
      {kC, R"({"prompt":"a","structured_outputs":{"regex":"a"},
        "response_format":{"type":"json_object"}})",
       400, "structured_outputs"},
      {kC, R"({"prompt":"a","response_format":{"type":"json_schema"}})", 400,
       "response_format.json_schema"},
      {kC,
       R"({"prompt":"a","response_format":{"type":"json_schema","json_schema":{"name":"a b"}}})",
       400, "response_format.json_schema.name"},
      {kC, R"({"prompt":"a","response_format":{"type":"xml"}})", 400, "response_format.type"},
      {kC, R"({"prompt":"a","logprob_token_ids":[1]})", 400, "logprob_token_ids"},
      {kC, R"({"prompt":"a","kv_transfer_params":{"do_remote_decode":1}})", 400,
       "kv_transfer_params.do_remote_decode"},
      {kC, R"({"prompt":["a","b"],"kv_transfer_params":{"do_remote_decode":true}})", 400,
       "kv_transfer_params"},
      {kH, "{}", 400, "messages"},
      {kH, R"({"messages":[]})", 400, "messages"},
      {kH, R"({"messages":"hi"})", 400, "messages"},
      {kH, R"({"messages":[1]})", 400, "messages.0"},
      {kH, R"({"messages":[{"content":"a"}]})", 400, "messages.0.role"},
      {kH, R"({"messages":[{"role":"user","content":7}]})", 400, "messages.0.content"},
      {kH,
       R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]})",
       400, "messages.0.content"},
      {kH, R"({"messages":[{"role":"refuse","content":"a"}]})", 400, "null"},
      {kH, "{" + chat + R"(,"top_logprobs":2})", 400, "top_logprobs"},
      {kH, "{" + chat + R"(,"logprobs":2})", 400, "logprobs"},
      {kH, "{" + chat + R"(,"max_tokens":0})", 400, "max_tokens"},
      {kH, "{" + chat + R"(,"tools":[]})", 400, "tools"},
      {kH, "{" + chat + R"(,"tools":[{"type":"function"}]})", 400, "tools"},
      {kH, "{" + chat + R"(,"tools":[{"type":"x","function":{"name":"f"}}]})", 400, "tools"},
      {kH, "{" + chat + R"(,"tool_choice":"auto"})", 400, "tool_choice"},
      {kH,
       "{" + chat +
           R"(,"tool_choice":"required","tools":[{"type":"function","function":{"name":"f"}}]})",
       400, "tool_choice"},  // its template shows no dialect
      {kH,
       "{" + chat +
           R"(,"tool_choice":{"type":"function","function":{"name":"g"}},"tools":[{"type":"function","function":{"name":"f"}}]})",
       400, "tool_choice"},
      {kH, "{" + chat + R"(,"tool_choice":"required"})", 400, "tool_choice"},
      {kH,
       "{" + chat +
           R"(,"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"f"}}]})",
       400, "tools"},
      {kH, "{" + chat + R"(,"tool_choice":7})", 400, "tool_choice"},
      {kH, "{" + chat + R"(,"add_generation_prompt":true,"continue_final_message":true})", 400,
       "continue_final_message"},
      {kH, "{" + chat + R"(,"chat_template":"x"})", 400, "chat_template"},
      {kH, "{" + chat + R"(,"chat_template_kwargs":{"messages":[]}})", 400, "chat_template_kwargs"},
      {kH, "{" + chat + R"(,"reasoning_effort":"huge"})", 400, "reasoning_effort"},
      {kH, "{" + chat + R"(,"thinking_token_budget":5})", 400, "thinking_token_budget"},
  };
  TestClient client(server->port());
  for (const Refusal& c : cases) {
    const ClientResponse r = client.post(
        c.path, c.body,
        c.body.empty()
            ? std::vector<std::string>{"Content-Type: application/json", "Content-Length: 0"}
            : std::vector<std::string>{});
    ASSERT_EQ(r.status, c.status) << c.body.substr(0, 200) << "\n" << r.body;
    EXPECT_EQ(error_param(r), c.param) << c.body.substr(0, 200) << "\n" << r.body;
    EXPECT_EQ(parse(r.body).at("error").at("code").as_int64(), c.status);
    EXPECT_EQ(error_message(r).find('\n'), std::string::npos);
  }
  EXPECT_TRUE(engine->requests().empty()) << "a refused request reached the engine";
  EXPECT_EQ(client.post("/v1/completions", R"({"prompt":"a"})").status, 200);
}

TEST_F(ServerTest, MalformedBodiesSayWhere) {
  start_saying("x");
  const auto message = [&](const std::string& body) {
    return error_message(post("/v1/completions", body, {"Content-Type: application/json"}));
  };
  EXPECT_EQ(message(""), "expected a JSON object, got an empty body");
  EXPECT_EQ(message(R"({"prompt":)"), "invalid JSON: it ends too early");
  EXPECT_EQ(message(R"({"prompt": NaN})"), "invalid JSON after 11 bytes: syntax error");
  EXPECT_EQ(message(R"({"prompt": "a"} x)"), "invalid JSON after 16 bytes: extra data");
  EXPECT_EQ(message(R"({"prompt":"a","temperature":2.5})"),
            "temperature: expected a number in [0, 2], got the number 2.5");
}

TEST_F(ServerTest, ContentTypeMustBeJson) {
  start_saying("x");
  const ClientResponse r =
      post("/v1/completions", R"({"prompt":"a"})", {"Content-Type: text/plain"});
  EXPECT_EQ(r.status, 400);
  EXPECT_EQ(error_type(r), "Bad Request");
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"a"})",
                 {"Content-Type: Application/JSON; charset=utf-8"})
                .status,
            200);
}

TEST_F(ServerTest, UnknownAndRemovedFieldsWarn) {
  start_saying("x");
  const ClientResponse r =
      post("/v1/completions", R"({"prompt":"a","guided_json":{},"foo\r\nbar":1,"guided_regex":2})");
  EXPECT_EQ(r.status, 200);
  EXPECT_EQ(r.headers.at("x-quire-warning"),
            "guided_json was removed and has no effect, use structured_outputs.json; unknown field "
            "foo??bar has no "
            "effect; guided_regex was removed and has no effect, use structured_outputs.regex");
  const ClientResponse streamed =
      post("/v1/completions", R"({"prompt":"a","foo":1,"stream":true})");
  EXPECT_EQ(streamed.headers.at("x-quire-warning"), "unknown field foo has no effect");
  EXPECT_FALSE(post("/v1/completions", R"({"prompt":"a","user":"me","metadata":{}})")
                   .headers.contains("x-quire-warning"));
}

TEST_F(ServerTest, StrictFieldsRefuse) {
  ServerOptions options;
  options.strict_fields = true;
  start_saying("x", options);
  const ClientResponse r = post("/v1/completions", R"({"prompt":"a","guided_json":{}})");
  EXPECT_EQ(r.status, 400);
  EXPECT_EQ(error_param(r), "guided_json");
  EXPECT_EQ(error_message(r), "guided_json: this field was removed, use structured_outputs.json");
}

TEST_F(ServerTest, ChatReachesTheTemplate) {
  start_saying("x");
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"f"}}])";
  const auto prompt = [&](const std::string& body) {
    const ClientResponse r = post("/v1/chat/completions", body);
    EXPECT_EQ(r.status, 200) << r.body;
    const auto ids = engine->requests().back().prompt_token_ids;
    return ByteCodec().decode(ids, true);
  };
  EXPECT_EQ(
      prompt(
          R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]})"),
      "user: a\nb\nassistant:");
  EXPECT_EQ(prompt(R"({"messages":[{"role":"user","content":"a"}],)" + tools + "}"),
            "user: a\ntools: 1\nassistant:");
  EXPECT_EQ(
      prompt(R"({"messages":[{"role":"user","content":"a"}],"tool_choice":"none",)" + tools + "}"),
      "user: a\nassistant:");
  EXPECT_EQ(
      prompt(R"({"messages":[{"role":"assistant","content":"a"}],"continue_final_message":true})"),
      "assistant: a\n");
}

TEST_F(ServerTest, DefaultsOfTheModelAndBounds) {
  defaults.temperature = 0.5f;
  defaults.top_k = 40;
  defaults.max_tokens = 100;
  start_saying("x");
  const auto params = [&](const std::string& fields) {
    const ClientResponse r = post("/v1/completions", R"({"prompt":"abc")" + fields + "}");
    EXPECT_EQ(r.status, 200) << r.body;
    return engine->requests().back().params;
  };
  const SamplingParams silent = params("");
  EXPECT_EQ(silent.temperature, 0.5f);
  EXPECT_EQ(silent.top_k, 40);
  EXPECT_EQ(silent.max_tokens, 16);
  EXPECT_FALSE(silent.seed);
  const SamplingParams asked = params(
      R"(,"temperature":0.001,"top_k":3,"max_tokens":5000,"seed":-1,"logit_bias":{"5":300})");
  EXPECT_EQ(asked.temperature, 0.01f);
  EXPECT_EQ(asked.top_k, 3);
  EXPECT_EQ(asked.max_tokens, 100);
  EXPECT_EQ(asked.seed, ~uint64_t{0});
  EXPECT_EQ(asked.logit_bias.at(0), (std::pair<TokenId, float>{5, 100.0f}));
  const SamplingParams greedy = params(R"(,"temperature":0,"top_p":0.5,"min_p":0.1)");
  EXPECT_TRUE(greedy.greedy());
  EXPECT_EQ(greedy.top_p, 1.0f);
  EXPECT_EQ(greedy.top_k, 0);
  EXPECT_EQ(greedy.min_p, 0.0f);
  EXPECT_EQ(params(R"(,"truncate_prompt_tokens":2)").max_tokens, 16);
  EXPECT_EQ(engine->requests().back().prompt_token_ids, (std::vector<TokenId>{'b', 'c'}));
  (void)params(R"(,"truncate_prompt_tokens":2,"truncation_side":"right")");
  EXPECT_EQ(engine->requests().back().prompt_token_ids, (std::vector<TokenId>{'a', 'b'}));
  // -1 leaves room for the answer that was asked for.
  const std::string long_prompt(2000, 'a');
  const auto cut = [&](const std::string& fields) {
    const ClientResponse r =
        post("/v1/completions",
             "{\"prompt\":\"" + long_prompt + "\",\"truncate_prompt_tokens\":-1" + fields + "}");
    EXPECT_EQ(r.status, 200) << r.body;
    return engine->requests().back().prompt_token_ids.size();
  };
  EXPECT_EQ(cut(""), 1023u);
  EXPECT_EQ(cut(R"(,"max_tokens":24)"), 1000u);
  EXPECT_EQ(cut(R"(,"max_tokens":5000)"), 1023u);
  const ClientResponse echoed =
      post("/v1/completions", R"({"prompt":"abc","truncate_prompt_tokens":2,"echo":true})");
  EXPECT_EQ(parse(echoed.body).at("choices").at(0).at("text").as_string(), "bcx");
  // The word is tokenized as it is and after a space, although the latter has more tokens.
  EXPECT_EQ(params(R"(,"bad_words":["x"])").bad_words,
            (std::vector<std::vector<TokenId>>{{'x'}, {' ', 'x'}}));
}

TEST_F(ServerTest, MetricsCountTheTimeOfHttpThreads) {
  start_saying("x");
  const auto cpu_s = [this] {
    const std::string text = get("/metrics").body;
    constexpr std::string_view kName = "\nquire:http_cpu_seconds_total ";
    const size_t at = text.find(kName);
    return at == std::string::npos ? -1 : std::strtod(text.c_str() + at + kName.size(), nullptr);
  };
  const double before = cpu_s();
  EXPECT_GT(before, 0);
  (void)post("/v1/completions", R"({"prompt":"a"})");
  EXPECT_GT(cpu_s(), before);
}

TEST_F(ServerTest, MetricsHaveVllmsNamesAndLabels) {
  start_saying("x");
  (void)post("/v1/completions", R"({"prompt":"a"})");
  const ClientResponse r = get("/metrics");
  EXPECT_EQ(r.headers.at("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  for (const char* line :
       {"vllm:num_requests_running{model_name=\"tiny\",engine=\"0\"} 0.0\n",
        "vllm:kv_cache_usage_perc{model_name=\"tiny\",engine=\"0\"} 0.25\n",
        "vllm:prompt_tokens_total{model_name=\"tiny\",engine=\"0\"} 1.234567e+06\n",
        "vllm:num_requests_waiting_by_reason{model_name=\"tiny\",engine=\"0\",reason=\"capacity\"} "
        "0.0\n",
        "vllm:request_success_total{model_name=\"tiny\",engine=\"0\",finished_reason=\"stop\"} "
        "3.0\n",
        "vllm:time_to_first_token_seconds_bucket{model_name=\"tiny\",engine=\"0\",le=\"0.02\"} "
        "0.0\n",
        "vllm:time_to_first_token_seconds_bucket{model_name=\"tiny\",engine=\"0\",le=\"0.04\"} "
        "1.0\n",
        "vllm:time_to_first_token_seconds_bucket{model_name=\"tiny\",engine=\"0\",le=\"+Inf\"} "
        "1.0\n",
        "vllm:time_to_first_token_seconds_count{model_name=\"tiny\",engine=\"0\"} 1.0\n",
        "vllm:request_prompt_tokens_bucket{model_name=\"tiny\",engine=\"0\",le=\"1e+06\"} 1.0\n",
        "vllm:engine_sleep_state{model_name=\"tiny\",engine=\"0\",sleep_state=\"awake\"} 1.0\n",
        "quire:step_part_microseconds_total{model_name=\"tiny\",engine=\"0\",part=\"execute\"} "
        "420.0\n",
        "quire:step_part_microseconds_total{model_name=\"tiny\",engine=\"0\",part=\"sample\"} "
        "7.0\n",
        "quire:thread_team_members{model_name=\"tiny\",engine=\"0\"} 3.0\n",
        "quire:thread_team_late_members_total{model_name=\"tiny\",engine=\"0\"} 2.0\n",
        "vllm:cache_config_info{model_name=\"tiny\",engine=\"0\",block_size=\"4\",num_gpu_blocks="
        "\"7\",",
        "http_requests_total{handler=\"/v1/completions\",status=\"2xx\",method=\"POST\"} 1.0\n"}) {
    EXPECT_NE(r.body.find(line), std::string::npos) << line;
  }
}

TEST_F(ServerTest, MetricFamiliesMatchVllm) {
  QUIRE_REQUIRE_SHARED(file, "api/vllm_metric_families_v0.26.0.txt");
  start_saying("x");
  const std::string text = get("/metrics").body;
  std::istringstream lines(test::read_file(file));
  std::string name, type;
  int num_found = 0;
  while (lines >> name >> type) {
    EXPECT_NE(text.find("# TYPE " + name + " " + type + "\n"), std::string::npos) << name;
    ++num_found;
  }
  EXPECT_GT(num_found, 30);
}

}  // namespace
}  // namespace quire::server
