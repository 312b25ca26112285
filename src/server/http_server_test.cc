// These tests are about HTTP: framing, limits, keys, disconnects, slow readers and draining.
#include <gtest/gtest.h>

#include <random>

#include "server/testing/server_fixture.h"
#include "tests/support/temp_folder.h"

namespace quire::server {
namespace {

constexpr std::string_view kPrompt = R"({"prompt":"abc"})";

// Returns much text in few deltas, which fills the socket's buffers quickly.
std::vector<OutputDelta> long_winded(const GenerationRequest&) {
  OutputDelta delta;
  delta.text = std::string(16 * 1024, 'x');
  delta.token_ids = {'x'};
  return {delta};
}

TEST_F(ServerTest, RequestsSplitAtEveryByteAnswerAlike) {
  start_saying("ok");
  const std::string text =
      http_request("POST", "/v1/completions", R"({"prompt":"abc","request_id":"q"})");
  for (size_t cut = 0; cut <= text.size(); cut += 1) {
    TestClient client(server->port());
    client.send(text.substr(0, cut));
    if (cut % 16 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    client.send(text.substr(cut));
    const ClientResponse r = client.receive();
    ASSERT_EQ(r.status, 200) << "cut at " << cut << ": " << r.body;
    ASSERT_NE(r.body.find("\"text\":\"ok\""), std::string::npos);
  }
}

TEST_F(ServerTest, OneBytePerPacket) {
  start_saying("ok");
  TestClient client(server->port());
  client.send_slowly(http_request("POST", "/v1/completions", kPrompt));
  EXPECT_EQ(client.receive().status, 200);
}

TEST_F(ServerTest, KeepAliveAndPipelining) {
  start_saying("ok");
  TestClient client(server->port());
  std::string all;
  for (int i = 0; i < 5; ++i) {
    all += http_request("POST", "/v1/completions",
                        R"({"prompt":"a","request_id":"p)" + std::to_string(i) + "\"}");
    all += http_request("GET", "/version", "");
  }
  client.send(all);
  for (int i = 0; i < 5; ++i) {
    const ClientResponse r = client.receive();
    ASSERT_EQ(r.status, 200);
    EXPECT_EQ(parse(r.body).at("id").as_string(), "cmpl-p" + std::to_string(i));
    EXPECT_EQ(client.receive().status, 200);
  }
}

TEST_F(ServerTest, StreamThenNextRequestOnOneConnection) {
  start_saying("ok");
  TestClient client(server->port());
  for (int i = 0; i < 3; ++i) {
    const ClientResponse r = client.post("/v1/completions", R"({"prompt":"a","stream":true})");
    EXPECT_EQ(r.status, 200);
    EXPECT_EQ(events_of(r.body).back(), "[DONE]");
  }
}

TEST_F(ServerTest, ChunkedBodyAndContinue) {
  start_saying("ok");
  TestClient client(server->port());
  client.send(
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n8\r\n{\"prompt\r\n8\r\n\":\"abc\"}\r\n0\r\n\r\n");
  EXPECT_EQ(client.receive().status, 200);
  client.send(
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
      "Content-Length: 16\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.receive_some(25), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send(kPrompt);
  EXPECT_EQ(client.receive().status, 200);
}

TEST_F(ServerTest, ProgramsMayLeaveTheContentTypeOutAndPagesMayNot) {
  start_saying("ok");
  const auto status = [this](std::string_view headers) {
    TestClient client(server->port());
    client.send(
        fmt::format("POST /v1/completions HTTP/1.1\r\nHost: x\r\n{}Content-Length: 14\r\n\r\n"
                    "{{\"prompt\":\"a\"}}",
                    headers));
    return client.receive().status;
  };
  EXPECT_EQ(status(""), 200);
  EXPECT_EQ(status("Origin: http://evil.example\r\n"), 400);
  EXPECT_EQ(status("Content-Type: \r\n"), 400);
}

TEST_F(ServerTest, ExpectIsAnsweredBeforeTheBody) {
  ServerOptions options;
  options.api_keys = {"k"};
  start_saying("ok", options);
  TestClient client(server->port());
  client.send(
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\nExpect: "
      "100-continue\r\n\r\n");
  const ClientResponse r = client.receive();
  EXPECT_EQ(r.status, 401);
  EXPECT_EQ(r.headers.at("connection"), "close");
}

TEST_F(ServerTest, CodingsThatNobodyDecodesAreRefused) {
  start_saying("ok");
  const std::pair<std::string, int> cases[] = {{"Transfer-Encoding: gzip, chunked", 501},
                                               {"Content-Encoding: gzip", 415},
                                               {"Content-Encoding: identity", 200}};
  for (const auto& [header, status] : cases) {
    TestClient client(server->port());
    const std::string length = status == 501 ? "" : "Content-Length: 16\r\n";
    client.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" +
                length + header + "\r\n\r\n" + std::string(kPrompt));
    EXPECT_EQ(client.receive().status, status) << header;
  }
}

TEST_F(ServerTest, AbsoluteTargets) {
  start_saying("ok");
  const std::pair<std::string, int> cases[] = {{"http://host:80/version?x=/y", 200},
                                               {"http://host", 400},
                                               {"http://host?/version", 400},
                                               {"ftp://host/version", 400}};
  for (const auto& [target, status] : cases) {
    TestClient client(server->port());
    client.send("GET " + target + " HTTP/1.1\r\nHost: host\r\n\r\n");
    EXPECT_EQ(client.receive().status, status) << target;
  }
}

TEST_F(ServerTest, Http10) {
  start_saying("ok");
  TestClient client(server->port());
  client.send(
      http_request("POST", "/v1/completions", R"({"prompt":"a","stream":true})", {}, "1.0"));
  const ClientResponse r = client.receive();
  EXPECT_EQ(r.head.substr(0, 12), "HTTP/1.0 200");
  EXPECT_FALSE(r.headers.contains("transfer-encoding"));
  EXPECT_EQ(events_of(r.body).back(), "[DONE]");
  TestClient keeper(server->port());
  keeper.send(http_request("GET", "/version", "", {"Connection: keep-alive"}, "1.0"));
  EXPECT_EQ(keeper.receive().headers.at("connection"), "keep-alive");
  keeper.send(http_request("GET", "/version", "", {}, "1.0"));
  EXPECT_EQ(keeper.receive().status, 200);
  EXPECT_TRUE(keeper.closed_by_server());
}

TEST_F(ServerTest, HeadOptionsAndMethods) {
  start_saying("ok");
  TestClient client(server->port());
  const ClientResponse get = client.request("GET", "/version");
  const ClientResponse head = client.request("HEAD", "/version");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.at("content-length"), get.headers.at("content-length"));
  const ClientResponse options =
      client.request("OPTIONS", "/v1/completions", "",
                     {"Origin: http://localhost:5173", "Access-Control-Request-Headers: x-a"});
  EXPECT_EQ(options.status, 204);
  EXPECT_EQ(options.headers.at("allow"), "POST, OPTIONS");
  EXPECT_EQ(options.headers.at("access-control-allow-origin"), "http://localhost:5173");
  EXPECT_EQ(options.headers.at("access-control-allow-headers"), "x-a");
  const ClientResponse wrong = client.request("GET", "/v1/completions");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers.at("allow"), "POST, OPTIONS");
  EXPECT_EQ(client.request("GET", "/nowhere").status, 404);
  EXPECT_EQ(client.request("POST", "/ping").status, 200);
  EXPECT_EQ(client.request("GET", "/version").status, 200);
}

TEST_F(ServerTest, KeysGuardAllButHealthAndThePage) {
  ServerOptions options;
  options.api_keys = {"secret", "other"};
  start_saying("ok", options);
  for (const char* path : {"/v1/models", "/metrics", "/tokenize", "/nowhere", "/openapi.json",
                           "/quire/stats", "/quire/kv/blocks"}) {
    const ClientResponse r = get(path);
    EXPECT_EQ(r.status, 401) << path;
    EXPECT_EQ(r.body, R"({"error":"Unauthorized"})");
  }
  // A browser opens the page before anybody can type the key into it.
  for (const char* path : {"/health", "/ping", "/live", "/ready", "/"})
    EXPECT_EQ(get(path).status, 200) << path;
  TestClient client(server->port());
  EXPECT_EQ(client.request("OPTIONS", "/v1/models").status, 204);
  EXPECT_EQ(get("/v1/models", {"Authorization: Bearer secret"}).status, 200);
  EXPECT_EQ(get("/v1/models", {"authorization: bEaReR other"}).status, 200);
  EXPECT_EQ(get("/v1/models", {"Authorization: Bearer secre"}).status, 401);
  EXPECT_EQ(get("/v1/models", {"Authorization: Bearer secrets"}).status, 401);
  EXPECT_EQ(get("/v1/models", {"Authorization: Basic secret"}).status, 401);
  EXPECT_EQ(get("/v1/models", {"Authorization: secret"}).status, 401);
  EXPECT_EQ(post("/v1/completions", kPrompt).status, 401);
  EXPECT_EQ(post("/v1/completions", kPrompt, {"Authorization: Bearer secret"}).status, 200);
}

TEST_F(ServerTest, MetricsMayBeOpen) {
  ServerOptions options;
  options.api_keys = {"secret"};
  options.guard_metrics = false;
  start_saying("ok", options);
  EXPECT_EQ(get("/metrics").status, 200);
  EXPECT_EQ(get("/load").status, 401);
}

TEST_F(ServerTest, LimitsOfHeadersAndBodies) {
  ServerOptions options;
  options.limits.header_bytes = 2048;
  options.limits.header_fields = 20;
  options.limits.body_bytes = 1000;
  start_saying("ok", options);
  EXPECT_EQ(get("/version", {"X-Big: " + std::string(4000, 'x')}).status, 431);
  EXPECT_EQ(get("/version", std::vector<std::string>(30, "X-Many: 1")).status, 431);
  EXPECT_EQ(get("/version", std::vector<std::string>(10, "X-Many: 1")).status, 200);
  const ClientResponse big =
      post("/v1/completions", R"({"prompt":")" + std::string(2000, 'a') + "\"}");
  EXPECT_EQ(big.status, 413);
  EXPECT_EQ(big.headers.at("connection"), "close");
  TestClient chunked(server->port());
  chunked.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 20; ++i) chunked.send("64\r\n" + std::string(100, 'a') + "\r\n");
  EXPECT_EQ(chunked.receive().status, 413);
}

TEST_F(ServerTest, LargeRefusedUploadStillReadsTheAnswer) {
  ServerOptions options;
  options.limits.body_bytes = 1000;
  start_saying("ok", options);
  TestClient client(server->port());
  client.send(http_request("POST", "/v1/completions", std::string(8 << 20, 'a')));
  EXPECT_EQ(client.receive().status, 413);
}

TEST_F(ServerTest, MalformedRequests) {
  start_saying("ok");
  const std::vector<std::pair<std::string, int>> cases = {
      {"GARBAGE\r\n\r\n", 400},
      {"GET /version HTTP/9.9\r\n\r\n", 505},
      {"GET /version HTTP/1.1\r\n\r\n", 400},
      {"GET /version HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n", 400},
      {"GET /version HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", 400},
      {"GET ftp://a/version HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"GET /version HTTP/1.1\r\nHo st: x\r\n\r\n", 400},
      {"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400},
      {"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", 400},
      {"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n", 400},
      {"POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
      {"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: "
       "chunked\r\n\r\n0\r\n\r\n",
       400},
      {"POST /tokenize HTTP/1.1\r\nHost: x\r\nExpect: something\r\nContent-Length: 1\r\n\r\n",
       417}};
  for (const auto& [text, status] : cases) {
    TestClient client(server->port());
    client.send(text);
    const ClientResponse r = client.receive();
    EXPECT_EQ(r.status, status) << text << r.body;
    EXPECT_TRUE(client.closed_by_server()) << text;
  }
  EXPECT_EQ(get("/version").status, 200);
}

TEST_F(ServerTest, RandomBytesNeverStopTheServer) {
  start_saying("ok");
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::string good = http_request("POST", "/v1/completions", kPrompt);
  for (int i = 0; i < 200; ++i) {
    TestClient client(server->port());
    std::string text = good;
    for (int k = 0; k < 4; ++k) text[random() % text.size()] = static_cast<char>(random());
    client.send(text);
    client.close();
  }
  EXPECT_EQ(get("/version").status, 200);
  EXPECT_TRUE(eventually([&] { return server->num_connections() == 0; }));
}

TEST_F(ServerTest, SlowRequestTimesOut) {
  ServerOptions options;
  options.limits.read_timeout_ms = 100;
  start_saying("ok", options);
  TestClient client(server->port());
  client.send("POST /v1/comp");
  const ClientResponse r = client.receive();
  EXPECT_EQ(r.status, 408);
}

TEST_F(ServerTest, IdleConnectionIsClosed) {
  ServerOptions options;
  options.limits.idle_timeout_ms = 100;
  start_saying("ok", options);
  TestClient idle(server->port());
  EXPECT_TRUE(idle.closed_by_server());
}

TEST_F(ServerTest, ClientThatLeavesAbortsItsRequest) {
  for (const char* stream : {"true", "false"}) {
    start({.script = say("never ends"), .delay_us = 1000, .endless = true});
    TestClient client(server->port());
    client.send(http_request("POST", "/v1/completions",
                             std::string(R"({"prompt":["a","b"],"n":2,"stream":)") + stream + "}"));
    ASSERT_TRUE(eventually([&] { return engine->requests().size() == 2; }));
    if (std::string_view(stream) == "true") {
      EXPECT_FALSE(client.receive_some(100).empty());
    }
    EXPECT_EQ(engine->num_aborted(), 0u);
    client.close();
    EXPECT_TRUE(eventually([&] { return engine->num_aborted() == 2; })) << stream;
    EXPECT_TRUE(
        eventually([&] { return parse(get("/load").body).at("server_load").as_int64() == 0; }));
    server.reset();
  }
}

TEST_F(ServerTest, SlowReaderIsBounded) {
  ServerOptions options;
  options.limits.write_buffer_bytes = 16 * 1024;
  start({.script = long_winded, .endless = true, .max_unread = 300}, options);
  TestClient client(server->port());
  client.send(http_request("POST", "/v1/completions", R"({"prompt":"a","stream":true})"));
  // The client reads nothing. The socket fills, then the write buffer, then the engine's stream,
  // and the engine aborts the request.
  ASSERT_TRUE(eventually([&] { return engine->max_unread_seen() > 300; }));
  const ClientResponse r = client.receive();
  EXPECT_EQ(r.status, 200);
  const std::vector<std::string> events = events_of(r.body);
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_NE(events[events.size() - 2].find("\"error\""), std::string::npos);
  EXPECT_EQ(get("/version").status, 200);
}

TEST_F(ServerTest, StalledReaderIsCutOff) {
  ServerOptions options;
  options.limits.write_buffer_bytes = 16 * 1024;
  options.limits.write_stall_ms = 200;
  start({.script = long_winded, .delay_us = 20, .endless = true}, options);
  TestClient client(server->port());
  client.send(http_request("POST", "/v1/completions", R"({"prompt":"a","stream":true})"));
  EXPECT_TRUE(eventually([&] { return engine->num_aborted() == 1; }));
  EXPECT_TRUE(eventually([&] { return server->num_connections() == 0; }));
}

TEST_F(ServerTest, DrainRefusesNewWorkAndFinishesOld) {
  start({.script = say("abcdefghij"), .manual = true});
  TestClient client(server->port());
  client.send(http_request("POST", "/v1/completions", kPrompt));
  ASSERT_TRUE(eventually([&] { return engine->requests().size() == 1; }));
  EXPECT_EQ(get("/ready").status, 200);
  server->begin_drain();
  EXPECT_EQ(get("/ready").status, 503);
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_EQ(get("/live").status, 200);
  const ClientResponse refused = post("/v1/completions", kPrompt);
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.at("connection"), "close");
  EXPECT_TRUE(refused.headers.contains("retry-after"));
  EXPECT_FALSE(server->wait_idle(10));
  for (int i = 0; i < 10; ++i) engine->push();
  EXPECT_EQ(client.receive().status, 200);
  EXPECT_TRUE(server->wait_idle(5000));
}

TEST_F(ServerTest, StopClosesEverything) {
  start({.script = say("never ends"), .delay_us = 1000, .endless = true});
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(std::make_unique<TestClient>(server->port()));
    if (i % 2 == 0)
      clients.back()->send(
          http_request("POST", "/v1/completions", R"({"prompt":"a","stream":true})"));
  }
  ASSERT_TRUE(eventually([&] { return engine->requests().size() == 10; }));
  server->stop();
  EXPECT_EQ(engine->num_aborted(), 10u);
  EXPECT_EQ(server->num_connections(), 0u);
}

TEST_F(ServerTest, WhatIsThrownEndsItsRequestAlone) {
  const auto script = [](const GenerationRequest& request) {
    if (request.prompt_token_ids.size() != 3) throw std::bad_alloc();
    return say("ok")(request);
  };
  ServerOptions options;
  options.limits.inline_body_bytes = 200;
  start({.script = script}, options);
  for (const size_t size : {1, 300}) {  // prepared on the strand, and on a worker
    const std::string text(size, 'x');
    for (const char* stream : {"true", "false"}) {
      const ClientResponse r =
          post("/v1/completions", R"({"prompt":")" + text + R"(","stream":)" + stream + "}");
      EXPECT_EQ(r.status, 500) << r.body;
      EXPECT_EQ(r.headers.at("connection"), "close");
    }
    // The test's template throws an exception for unknown roles.
    const ClientResponse r =
        post("/v1/chat/completions",
             R"({"messages":[{"role":"user","content":null,"name":")" + text + "\"}]}");
    EXPECT_EQ(r.status, 500) << r.body;
  }
  EXPECT_EQ(post("/v1/completions", kPrompt).status, 200);
  EXPECT_TRUE(
      eventually([&] { return parse(get("/load").body).at("server_load").as_int64() == 0; }));
}

TEST_F(ServerTest, DeadEngineIs503) {
  start_saying("ok");
  engine->set_healthy(false);
  EXPECT_EQ(get("/health").status, 503);
  EXPECT_EQ(post("/v1/completions", kPrompt).status, 503);
  EXPECT_EQ(get("/live").status, 200);
}

TEST_F(ServerTest, TooManyConnections) {
  ServerOptions options;
  options.limits.max_connections = 4;
  start_saying("ok", options);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<TestClient>(server->port()));
    ASSERT_EQ(clients.back()->request("GET", "/version").status, 200);
  }
  TestClient fifth(server->port());
  EXPECT_EQ(fifth.receive().status, 503);
  clients.clear();
  EXPECT_TRUE(eventually([&] { return server->num_connections() == 0; }));
  EXPECT_EQ(get("/version").status, 200);
}

TEST_F(ServerTest, ThousandOpenStreams) {
  ServerOptions options;
  options.limits.max_connections = 2000;
  start({.script = say("abcdefgh"), .manual = true}, options);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 1000; ++i) {
    clients.push_back(std::make_unique<TestClient>(server->port()));
    clients.back()->send(
        http_request("POST", "/v1/completions", R"({"prompt":"a","stream":true})"));
  }
  ASSERT_TRUE(eventually([&] { return engine->num_open() == 1000; }));
  for (int i = 0; i < 8; ++i) engine->push();
  for (const auto& client : clients) {
    const ClientResponse r = client->receive();
    ASSERT_EQ(r.status, 200);
    ASSERT_EQ(events_of(r.body).size(), 9u);
  }
}

TEST_F(ServerTest, RequestIdHeaders) {
  ServerOptions options;
  options.enable_request_id_headers = true;
  start_saying("ok", options);
  EXPECT_EQ(post("/v1/completions", kPrompt, {"X-Request-Id: mine-1"}).headers.at("x-request-id"),
            "mine-1");
  EXPECT_EQ(get("/version").headers.at("x-request-id").size(), 32u);
  EXPECT_EQ(get("/nowhere", {"X-Request-Id: a b"}).headers.at("x-request-id").size(), 32u);
}

TEST(HttpServerCreateTest, RefusesWhatCannotBe) {
  auto engine = std::make_shared<ScriptedEngine>(ScriptedEngine::Options{.script = say("x")});
  EXPECT_FALSE(HttpServer::create({}, ServedModel{}).ok());
  ServerOptions empty_key;
  empty_key.api_keys = {""};
  EXPECT_FALSE(HttpServer::create(empty_key, scripted_model(engine)).ok());
  ServerOptions no_body;
  no_body.limits.body_bytes = 0;
  EXPECT_FALSE(HttpServer::create(no_body, scripted_model(engine)).ok());
  ServedModel nameless = scripted_model(engine);
  nameless.names = {""};
  EXPECT_FALSE(HttpServer::create({}, nameless).ok());
  ServerOptions no_host;
  no_host.host = "";
  EXPECT_FALSE(HttpServer::create(no_host, scripted_model(engine)).ok());
  ServerOptions reserved;
  reserved.default_chat_template_kwargs["messages"] = 5;
  EXPECT_FALSE(HttpServer::create(reserved, scripted_model(engine)).ok());
  ServerOptions bad_host;
  bad_host.host = "no.such.host.invalid";
  auto server = HttpServer::create(bad_host, scripted_model(engine));
  ASSERT_TRUE(server.ok());
  EXPECT_FALSE((*server)->start().ok());
}

TEST(HttpServerCreateTest, CheckRefusesSocketPathsBeforeAModelIsLoaded) {
  ServerOptions options;
  const test::TempFolder folder;
  options.uds = (folder / "no_such_folder" / "quire.sock").string();
  EXPECT_EQ(HttpServer::check(options).code(), StatusCode::kUnavailable);
  options.uds = "/proc/self/status";
  EXPECT_EQ(HttpServer::check(options).code(), StatusCode::kUnavailable) << "a file";
  options.uds = (folder / "quire.sock").string();
  EXPECT_TRUE(HttpServer::check(options).ok());
}

TEST(HttpServerCreateTest, UnixSocket) {
  auto engine = std::make_shared<ScriptedEngine>(ScriptedEngine::Options{.script = say("x")});
  ServerOptions options;
  const test::TempFolder folder;
  options.uds = (folder / "quire.sock").string();
  auto server = HttpServer::create(options, scripted_model(engine));
  ASSERT_TRUE(server.ok());
  ASSERT_TRUE((*server)->start().ok());
  auto second = HttpServer::create(options, scripted_model(engine));
  EXPECT_FALSE((*second)->start().ok()) << "the path is in use";
  (*server)->stop();
}

}  // namespace
}  // namespace quire::server
