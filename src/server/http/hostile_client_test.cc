// These tests are about clients and pages of other origins that try to harm the server or its other
// clients.
#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>
#include <condition_variable>
#include <mutex>

#include "base/utf8.h"
#include "server/http/cors.h"
#include "server/testing/server_fixture.h"

namespace quire::server {
namespace {

namespace json = boost::json;

constexpr std::string_view kPrompt = R"({"prompt":"abc"})";

std::string chunked_head(std::string_view path) {
  return "POST " + std::string(path) +
         " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
         "Transfer-Encoding: chunked\r\n\r\n";
}

TEST_F(ServerTest, AnExtensionOrTrailerWithoutEndIsRefused) {
  start_saying("ok");
  for (const char* begin : {"1;e=", "0;e=", "0\r\nT: "}) {
    TestClient client(server->port());
    client.send(chunked_head("/v1/completions") + begin + std::string(64 * 1024, 'x'));
    EXPECT_EQ(client.receive().status, 431) << begin;
    EXPECT_TRUE(client.closed_by_server());
  }
}

TEST_F(ServerTest, ManyValuesInOneBodyAreRefusedBeforeTheyAreParsed) {
  ServerOptions options;
  options.limits.parsed_bytes = 1 << 20;
  start_saying("ok", options);
  std::string messages = R"({"messages":[{"role":"user","content":""})";
  for (int i = 0; i < 10'000; ++i) messages += R"(,{"role":"user","content":""})";
  const ClientResponse r = post("/v1/chat/completions", messages + "]}");
  EXPECT_EQ(r.status, 413);
  EXPECT_NE(error_message(r).find("--max-parsed-size"), std::string::npos);
  const std::string long_text(900'000, 'a');
  EXPECT_EQ(post("/tokenize", R"({"prompt":")" + long_text + "\"}").status, 200);
}

TEST_F(ServerTest, BytesThatAreNoTextNeverMakeInvalidJson) {
  start_saying("ok");
  const ClientResponse model = get("/v1/models/%ff%c3");
  EXPECT_EQ(model.status, 404);
  EXPECT_NE(error_message(model).find("\xEF\xBF\xBD"), std::string::npos);
  EXPECT_EQ(to_valid_utf8(model.body), model.body);
  TestClient client(server->port());
  const ClientResponse type = client.request("POST", "/tokenize", "{}", {"Content-Type: \xff\xfe"});
  EXPECT_EQ(type.status, 400);
  EXPECT_EQ(to_valid_utf8(type.body), type.body);
}

TEST_F(ServerTest, LongNamesAndRolesAreCutInErrors) {
  start_saying("ok");
  const std::string name(1 << 20, 'n');
  const ClientResponse model = post("/v1/completions", R"({"prompt":"a","model":")" + name + "\"}");
  EXPECT_EQ(model.status, 404);
  EXPECT_LT(model.body.size(), 400u);
  EXPECT_NE(error_message(model).find("does not exist"), std::string::npos);
  const ClientResponse role =
      post("/v1/chat/completions",
           R"({"echo":true,"add_generation_prompt":false,"messages":[{"role":")" + name +
               R"(","content":"a"}]})");
  EXPECT_EQ(role.status, 400);
  EXPECT_LT(role.body.size(), 400u);
  EXPECT_EQ(error_param(role), "messages.0.role");
}

TEST_F(ServerTest, WholeNumbersAreTokenIdsHoweverTheyAreWritten) {
  start_saying("ok");
  EXPECT_EQ(parse(post("/detokenize", R"({"tokens":[97,98.0,9.9e1]})").body).at("prompt"), "abc");
  for (const char* id : {"97.5", "-1.0", "1e300"}) {
    EXPECT_EQ(post("/detokenize", R"({"tokens":[)" + std::string(id) + "]}").status, 400) << id;
  }
}

TEST_F(ServerTest, WhatIsNotThereIsNotWorthTryingAgain) {
  start_saying("ok");
  const ClientResponse r = post("/v1/completions", R"({"prompt":"a","suffix":"b"})");
  EXPECT_EQ(r.status, 501);
  EXPECT_EQ(r.headers.at("x-should-retry"), "false");
  EXPECT_FALSE(post("/v1/completions", "{}").headers.contains("x-should-retry"));
}

TEST_F(ServerTest, EveryAnswerHasADate) {
  start_saying("ok");
  for (const char* path : {"/version", "/nowhere", "/health"}) {
    const std::string date = get(path).headers.at("date");
    EXPECT_TRUE(date.ends_with(" GMT")) << date;
  }
  EXPECT_TRUE(post("/v1/completions", R"({"prompt":"a","stream":true})").headers.contains("date"));
}

TEST_F(ServerTest, ASlashTooMuchIsForgiven) {
  start_saying("ok");
  EXPECT_EQ(get("/v1/models/").body, get("/v1/models").body);
  EXPECT_EQ(post("/v1/completions/", kPrompt).status, 200);
  EXPECT_EQ(get("//").status, 404);
  EXPECT_EQ(get("/nowhere/").status, 404);
}

// The template of a request waits here until the test lets it continue.
struct Gate {
  std::mutex mutex;
  std::condition_variable opened;
  bool open = false;
};

TEST_F(ServerTest, TemplatesOfRequestsHoldUpNobody) {
  const auto gate = std::make_shared<Gate>();
  engine = std::make_shared<ScriptedEngine>(ScriptedEngine::Options{.script = say("ok")});
  ServedModel model = scripted_model(engine);
  model.render_chat = [gate](const ChatRenderRequest& request) -> Result<std::string> {
    if (!request.template_source) return std::string("abc");
    std::unique_lock lock(gate->mutex);
    gate->opened.wait(lock, [&] { return gate->open; });
    return std::string("abc");
  };
  ServerOptions options;
  options.port = 0;
  options.num_io_threads = 1;
  options.trust_request_chat_template = true;
  server = std::move(HttpServer::create(options, model)).value();
  ASSERT_TRUE(server->start().ok());
  const std::string body = R"({"messages":[{"role":"user","content":"a"}],"chat_template":"x"})";
  TestClient chat(server->port()), tokenize(server->port());
  chat.send(http_request("POST", "/v1/chat/completions", body));
  tokenize.send(http_request("POST", "/tokenize", body));
  EXPECT_EQ(get("/version").status, 200) << "the only IO thread is free";
  {
    const std::lock_guard lock(gate->mutex);
    gate->open = true;
  }
  gate->opened.notify_all();
  EXPECT_EQ(chat.receive().status, 200);
  EXPECT_EQ(tokenize.receive().status, 200);
}

TEST_F(ServerTest, AStalledStreamGivesWayToThoseWhoWait) {
  for (const bool others_wait : {false, true}) {
    ServerOptions options;
    options.limits.contended_stall_ms = 100;
    const auto script = [](const GenerationRequest&) {
      OutputDelta delta;
      delta.text = std::string(16 * 1024, 'x');
      delta.token_ids = {'x'};
      return std::vector{delta};
    };
    start({.script = script, .delay_us = 1000, .endless = true}, options);
    engine->set_has_waiting(others_wait);
    TestClient client(server->port());
    client.send(http_request("POST", "/v1/completions", R"({"prompt":"a","stream":true})"));
    ASSERT_TRUE(eventually([&] { return engine->max_unread_seen() > 10; }));
    if (others_wait) {
      EXPECT_TRUE(eventually([&] { return engine->num_aborted() == 1; }));
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(1500));
      EXPECT_EQ(engine->num_aborted(), 0u);
    }
    client.close();
    server.reset();
  }
}

TEST(Cors, LocalOriginsAreThoseOfThisMachine) {
  for (const char* origin : {"http://localhost", "https://localhost:1", "http://127.0.0.1:8000",
                             "http://[::1]:3000", "https://[::1]"}) {
    EXPECT_TRUE(is_local_origin(origin)) << origin;
  }
  for (const char* origin :
       {"", "null", "http://", "http://localhost.evil.example", "http://127.0.0.1.evil.example",
        "http://localhost:", "http://localhost:80@evil.example", "ftp://localhost",
        "http://evil.example", "http://localhostt", "http://[::1]x", "file://localhost"}) {
    EXPECT_FALSE(is_local_origin(origin)) << origin;
  }
}

TEST_F(ServerTest, PagesOfOtherOriginsReadOnlyWhereTheyMay) {
  start_saying("ok");
  const auto allowed = [&](const char* path, const std::string& origin) -> std::string {
    const ClientResponse r = get(path, {"Origin: " + origin});
    const auto found = r.headers.find("access-control-allow-origin");
    return found == r.headers.end() ? "" : found->second;
  };
  EXPECT_EQ(allowed("/v1/models", "http://localhost:5173"), "http://localhost:5173");
  EXPECT_EQ(allowed("/v1/models", "https://evil.example"), "");
  EXPECT_EQ(get("/v1/models").headers.at("vary"), "Origin");
  // The state of the cache is shown to this server's own page only.
  for (const char* path : {"/quire/stats", "/quire/kv/blocks", "/quire/steps"}) {
    EXPECT_EQ(allowed(path, "http://localhost:5173"), "") << path;
    EXPECT_EQ(get(path).headers.at("cross-origin-resource-policy"), "same-origin");
  }
  const ClientResponse preflight =
      TestClient(server->port())
          .request("OPTIONS", "/quire/kv/explore", "", {"Origin: http://localhost:5173"});
  EXPECT_FALSE(preflight.headers.contains("access-control-allow-methods"));
}

TEST_F(ServerTest, AllowedOriginsAreTheOperators) {
  ServerOptions options;
  options.cors = {.allowed_origins = {"https://a.example"},
                  .allowed_methods = {"GET", "POST"},
                  .allowed_headers = {"X-A"},
                  .allow_credentials = true};
  start_saying("ok", options);
  const ClientResponse r =
      TestClient(server->port())
          .request("OPTIONS", "/v1/models", "",
                   {"Origin: https://a.example", "Access-Control-Request-Headers: x-b"});
  EXPECT_EQ(r.headers.at("access-control-allow-origin"), "https://a.example");
  EXPECT_EQ(r.headers.at("access-control-allow-credentials"), "true");
  EXPECT_EQ(r.headers.at("access-control-allow-methods"), "GET, POST");
  EXPECT_EQ(r.headers.at("access-control-allow-headers"), "X-A");
  EXPECT_FALSE(get("/v1/models", {"Origin: http://localhost"})
                   .headers.contains("access-control-allow-origin"));
  server.reset();
  options.cors = {.allowed_origins = {"*"}};
  start_saying("ok", options);
  EXPECT_EQ(get("/v1/models", {"Origin: http://b"}).headers.at("access-control-allow-origin"), "*");
}

TEST_F(ServerTest, ThePageCanBeSwitchedOff) {
  ServerOptions options;
  options.web_page = false;
  start_saying("ok", options);
  for (const char* path : {"/", "/web/index.html", "/quire/stats", "/quire/kv/blocks"}) {
    EXPECT_EQ(get(path).status, 404) << path;
  }
  EXPECT_EQ(get("/v1/models").status, 200);
  EXPECT_EQ(get("/openapi.json").body.find("/quire/"), std::string::npos);
}

TEST_F(ServerTest, OpenApiTellsWhatThisServerDoes) {
  start_saying("x");
  json::value doc = parse(get("/openapi.json").body);
  EXPECT_FALSE(doc.at("components").as_object().contains("securitySchemes"));
  const json::value models = doc.at("paths").at("/v1/models").at("get");
  EXPECT_FALSE(models.as_object().contains("security"));
  EXPECT_FALSE(models.at("responses").as_object().contains("401"));
  EXPECT_EQ(doc.at("components").at("schemas").at("TokenId").at("maximum").as_int64(), 256);
  const json::value stream = doc.at("paths")
                                 .at("/v1/chat/completions")
                                 .at("post")
                                 .at("responses")
                                 .at("200")
                                 .at("content")
                                 .at("text/event-stream");
  EXPECT_NE(json::serialize(stream).find("chat.completion.chunk"), std::string::npos);
  server.reset();
  ServerOptions options;
  options.api_keys = {"k"};
  options.guard_metrics = false;
  start_saying("x", options);
  doc = parse(get("/openapi.json", {"Authorization: Bearer k"}).body);
  EXPECT_TRUE(doc.at("components").at("securitySchemes").as_object().contains("bearer"));
  const auto guarded = [&](const char* path) {
    return doc.at("paths").at(path).at("get").as_object().contains("security");
  };
  EXPECT_TRUE(guarded("/v1/models"));
  EXPECT_FALSE(guarded("/metrics"));
  EXPECT_FALSE(guarded("/health"));
}

}  // namespace
}  // namespace quire::server
