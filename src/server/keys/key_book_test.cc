// These tests are about files of keys and their limits, over a scripted engine and real sockets.
#include "server/keys/key_book.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "server/http/auth.h"
#include "server/testing/server_fixture.h"
#include "tests/support/temp_folder.h"

namespace quire::server {
namespace {

TEST(KeyFile, IsReadWithItsLimits) {
  const auto keys = parse_key_file(fmt::format(
      R"({{"keys":[{{"name":"a","key":"k","requests_per_minute":3,"tokens_per_minute":4,"max_concurrent":5,"priority":-6}},
          {{"name":"b","sha256":"{}"}}]}})",
      key_digest("other")));
  ASSERT_TRUE(keys.ok()) << keys.status().message();
  ASSERT_EQ(keys->size(), 2u);
  EXPECT_EQ(keys->at(0).digest, key_digest("k"));
  EXPECT_EQ(keys->at(0).limits.requests_per_minute, 3);
  EXPECT_EQ(keys->at(0).limits.tokens_per_minute, 4);
  EXPECT_EQ(keys->at(0).limits.max_concurrent, 5);
  EXPECT_EQ(keys->at(0).priority, -6);
  EXPECT_EQ(keys->at(1).digest, key_digest("other"));
  EXPECT_FALSE(keys->at(1).limits.requests_per_minute);
}

TEST(KeyFile, SaysWhatIsWrong) {
  for (const auto& [text, said] : std::map<std::string, std::string>{
           {"[]", "expected {\"keys\": [...]}, got a list"},
           {R"({"keys":[]})", "expected 1 to 1000 keys, got 0"},
           {R"({"keys":[1]})", "expected an object, got the number 1"},
           {R"({"keys":[{"name":"a"}]})", "expected either a key or the sha256"},
           {R"({"keys":[{"name":"a","key":"k","sha256":"k"}]})", "expected either a key or"},
           {R"({"keys":[{"name":"a","sha256":"k"}]})", "expected 64 hex digits"},
           {R"({"keys":[{"name":"a b","key":"k"}]})", "name: expected 1 to 64"},
           {R"({"keys":[{"name":"a","key":"k","rpm":1}]})", "'rpm': this member is unknown"},
           {R"({"keys":[{"name":"a","key":"k","requests_per_minute":0}]})",
            "expected an integer in [1"},
           {R"({"keys":[{"name":"a","key":"k"},{"name":"a","key":"l"}]})",
            "each once, got 'a' again"},
           {R"({"keys":[{"name":"a","key":"k"},{"name":"b","key":"k"}]})",
            "expected each key once"}}) {
    const auto keys = parse_key_file(text);
    ASSERT_FALSE(keys.ok()) << text;
    EXPECT_NE(keys.status().message().find(said), std::string::npos) << keys.status().message();
  }
}

TEST(DurationText, AsGoWritesIt) {
  EXPECT_EQ(duration_text(0), "0ms");
  EXPECT_EQ(duration_text(1), "1ms");
  EXPECT_EQ(duration_text(250'000), "250ms");
  EXPECT_EQ(duration_text(1'500'000), "1.5s");
  EXPECT_EQ(duration_text(60'000'000), "1m0s");
  EXPECT_EQ(duration_text(150'000'000), "2m30s");
}

class KeysTest : public ServerTest {
 protected:
  void TearDown() override {
    server.reset();
    std::filesystem::remove(path_);
  }
  void write(std::string_view keys) { std::ofstream(path_) << R"({"keys":[)" << keys << "]}"; }
  void start_with_keys(ScriptedEngine::Options engine_options, ServerOptions options = {}) {
    extras.api_key_file = path_;
    start(std::move(engine_options), std::move(options));
  }
  ClientResponse ask(std::string_view key, std::string_view body = R"({"prompt":"ab"})") {
    return post("/v1/completions", body, {fmt::format("Authorization: Bearer {}", key)});
  }
  // Returns a negative value when there is no such line.
  double metric(std::string_view line) {
    const std::string text = get("/metrics", {"Authorization: Bearer k"}).body;
    const size_t at = text.find(std::string(line) + " ");
    return at == text.npos ? -1 : std::stod(text.substr(at + line.size() + 1));
  }

  const test::TempFolder folder_;
  const std::string path_ = (folder_ / "keys.json").string();
};

TEST_F(KeysTest, RequestsPerMinute) {
  write(R"({"name":"a","key":"k","requests_per_minute":2},{"name":"b","key":"l"})");
  start_with_keys({.script = say("x")});
  EXPECT_EQ(ask("no").status, 401);
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"a"})").status, 401);
  const ClientResponse first = ask("k");
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(first.headers.at("x-ratelimit-limit-requests"), "2");
  EXPECT_EQ(first.headers.at("x-ratelimit-remaining-requests"), "1");
  EXPECT_FALSE(first.headers.contains("x-ratelimit-limit-tokens"));
  EXPECT_EQ(ask("k").status, 200);
  const ClientResponse refused = ask("k");
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.headers.at("x-ratelimit-remaining-requests"), "0");
  const int64_t wait_s = std::stoll(refused.headers.at("retry-after"));
  EXPECT_GE(wait_s, 29);
  EXPECT_LE(wait_s, 30);
  EXPECT_NE(error_message(refused).find("the key 'a' may ask 2 requests per minute"),
            std::string::npos);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(ask("l").status, 200);
  EXPECT_EQ(metric(R"(quire:key_requests_total{key="a"})"), 2);
  EXPECT_EQ(metric(R"(quire:key_requests_total{key="b"})"), 10);
  EXPECT_EQ(metric(R"(quire:key_refused_total{key="a",limit="requests"})"), 1);
  EXPECT_EQ(metric(R"(quire:key_requests_running{key="a"})"), 0);
}

TEST_F(KeysTest, TokensOfPromptsAndAnswersCount) {
  write(R"({"name":"a","key":"k","tokens_per_minute":10})");
  start_with_keys({.script = say("hello")});  // five tokens
  EXPECT_EQ(ask("k").status, 200);
  EXPECT_EQ(metric(R"(quire:key_prompt_tokens_total{key="a"})"), 2);
  EXPECT_EQ(metric(R"(quire:key_output_tokens_total{key="a"})"), 5);
  const ClientResponse last = ask("k", R"({"prompt":"ab","stream":true})");
  EXPECT_EQ(last.status, 200);
  EXPECT_EQ(last.headers.at("x-ratelimit-remaining-tokens"), "3");
  const ClientResponse refused = ask("k");
  EXPECT_EQ(refused.status, 429);
  // The debt is four tokens, and one more is needed, at ten per minute.
  EXPECT_GE(std::stoll(refused.headers.at("retry-after")), 28);
  EXPECT_EQ(metric(R"(quire:key_refused_total{key="a",limit="tokens"})"), 1);
}

TEST_F(KeysTest, RequestsAtOnceEndWithTheirClients) {
  write(R"({"name":"a","key":"k","max_concurrent":2})");
  start_with_keys({.script = say("x"), .manual = true});
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 2; ++i) {
    clients.push_back(std::make_unique<TestClient>(server->port()));
    clients.back()->send(http_request("POST", "/v1/completions", R"({"prompt":"a","stream":true})",
                                      {"Authorization: Bearer k"}));
  }
  ASSERT_TRUE(eventually([&] { return engine->num_open() == 2; }));
  const ClientResponse refused = ask("k");
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(error_message(refused), "the key 'a' may have 2 requests under way at once");
  EXPECT_EQ(metric(R"(quire:key_requests_running{key="a"})"), 2);
  clients.clear();
  EXPECT_TRUE(eventually([&] { return metric(R"(quire:key_requests_running{key="a"})") == 0; }));
}

TEST_F(KeysTest, AFileIsReadAgain) {
  write(R"({"name":"a","key":"k","requests_per_minute":2})");
  start_with_keys({.script = say("x")});
  EXPECT_EQ(ask("k").status, 200);
  write(R"({"name":"a","key":"n","requests_per_minute":2},{"name":"b","key":"k"})");
  ASSERT_TRUE(server->reload().ok());
  EXPECT_EQ(ask("n").headers.at("x-ratelimit-remaining-requests"), "0");
  EXPECT_EQ(ask("n").status, 429);
  EXPECT_EQ(ask("k").status, 200);
  write("nonsense");
  EXPECT_EQ(server->reload().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ask("k").status, 200);
}

TEST_F(KeysTest, PrioritiesNeedAScheduler) {
  write(R"({"name":"a","key":"k","priority":7})");
  ServerOptions options;
  extras.api_key_file = path_;
  EXPECT_FALSE(HttpServer::create(options,
                                  scripted_model(std::make_shared<ScriptedEngine>(
                                      ScriptedEngine::Options{.script = say("x")})),
                                  extras)
                   .ok());
  options.priority_scheduling = true;
  start_with_keys({.script = say("x")}, options);
  EXPECT_EQ(ask("k").status, 200);
  EXPECT_EQ(engine->requests().back().priority, 7);
  EXPECT_EQ(ask("k", R"({"prompt":"a","priority":3})").status, 200);
  EXPECT_EQ(engine->requests().back().priority, 3);
}

// Many clients at once get as many answers as the limits allow, and not one more.
TEST_F(KeysTest, LimitsHoldUnderLoad) {
  write(R"({"name":"a","key":"k","requests_per_minute":100},
           {"name":"b","key":"l","max_concurrent":4})");
  start_with_keys({.script = say("hello"), .delay_us = 200});
  std::atomic<int> answered{0}, refused{0}, others{0};
  std::atomic<size_t> answered_b{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 16; ++i) {
    clients.emplace_back([&, i] {
      TestClient client(server->port());
      for (int n = 0; n < 25; ++n) {
        const bool is_a = i < 8;
        const ClientResponse r = client.post("/v1/completions", R"({"prompt":"a"})",
                                             {is_a ? "Authorization: Bearer k" : "X-Api-Key: l"});
        if (!is_a) {
          answered_b += r.status == 200;
        } else {
          ++(r.status == 200 ? answered : r.status == 429 ? refused : others);
        }
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(others, 0);
  EXPECT_EQ(answered + refused, 200);
  EXPECT_GE(answered, 100);
  EXPECT_LE(answered, 120);  // limits, and what was refilled meanwhile
  EXPECT_GE(answered_b, 25u);
  // A request ends a moment after its client has read the answer.
  const auto running = [&] { return metric(R"(quire:key_requests_running{key="b"})"); };
  for (int n = 0; n < 500 && running() != 0; ++n)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(running(), 0);
}

}  // namespace
}  // namespace quire::server
