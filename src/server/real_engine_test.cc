// These tests run the server over the real engine, scheduler and KV cache. Only the model is a hash
// (FakeExecutor).
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <boost/json/serialize.hpp>
#include <fstream>
#include <set>

#include "engine/engine_options.h"
#include "engine/observe/engine_stats.h"
#include "engine/testing/fake_executor.h"
#include "server/http_server.h"
#include "server/openai/tokenizer_codec.h"
#include "server/testing/server_fixture.h"
#include "tokenizer/json/tokenizer_json.h"
#include "tokenizer/tokenizer.h"

namespace quire::server {
namespace {

namespace json = boost::json;

// Returns a byte-level tokenizer with one token per letter of a small alphabet: "a" … "z", then " "
// (Ġ), then the special token <x>.
std::string letters_tokenizer() {
  json::object vocab;
  for (int i = 0; i < 26; ++i) vocab[std::string(1, static_cast<char>('a' + i))] = i;
  vocab["\xC4\xA0"] = 26;
  json::object model{{"type", "BPE"}, {"vocab", std::move(vocab)}, {"merges", json::array{}}};
  json::object pre{{"type", "ByteLevel"},
                   {"add_prefix_space", false},
                   {"trim_offsets", true},
                   {"use_regex", true}};
  const json::object special{{"id", 27}, {"content", "<x>"}, {"special", true}};
  return json::serialize(json::object{{"version", "1.0"},
                                      {"added_tokens", json::array{special}},
                                      {"normalizer", nullptr},
                                      {"pre_tokenizer", pre},
                                      {"post_processor", nullptr},
                                      {"decoder", pre},
                                      {"model", std::move(model)}});
}

// Sanitizers keep freed memory on purpose, so resident memory shows nothing under them.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kResidentMemoryTells = false;
#else
constexpr bool kResidentMemoryTells = true;
#endif

int64_t rss_kib() {
  std::ifstream status("/proc/self/status");
  std::string word;
  int64_t kib = 0;
  while (status >> word) {
    if (word == "VmRSS:") status >> kib;
  }
  return kib;
}

class RealEngineTest : public ::testing::Test {
 protected:
  void start(EngineOptions engine_options = {}, FakeExecutorOptions fake = {}) {
    auto loaded = tokenizer_from_json(letters_tokenizer());
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    const std::shared_ptr<const Tokenizer> tokenizer = std::move(loaded).value();
    fake.vocab_size = 28;
    fake.max_model_len = 512;
    auto made = make_async_engine(std::move(engine_options), std::make_unique<FakeExecutor>(fake),
                                  tokenizer, std::make_shared<SteadyClock>());
    ASSERT_TRUE(made.ok()) << made.status().message();
    engine = std::move(made).value();
    ServedModel model;
    model.names = {"fake"};
    model.engine = engine;
    model.codec = make_text_codec(tokenizer);
    ServerOptions options;
    options.port = 0;
    auto created = HttpServer::create(options, model);
    ASSERT_TRUE(created.ok()) << created.status().message();
    server = std::move(created).value();
    const Status status = server->start();
    ASSERT_TRUE(status.ok()) << status.message();
  }
  ClientResponse post(const std::string& body) {
    return TestClient(server->port()).post("/v1/completions", body);
  }
  json::value stats() {
    return parse(TestClient(server->port()).request("GET", "/quire/stats").body);
  }
  bool idle() {
    const json::value s = stats();
    return s.at("running").as_int64() == 0 && s.at("waiting").as_int64() == 0 &&
           s.at("kv_blocks_used").as_int64() == 0;
  }

  std::shared_ptr<AsyncEngine> engine;
  std::unique_ptr<HttpServer> server;
};

TEST_F(RealEngineTest, StreamedEqualsWhole) {
  start();
  for (const char* fields :
       {R"("max_tokens":40)", R"("max_tokens":40,"n":3,"seed":5)",
        R"("max_tokens":30,"logprobs":2,"echo":true)", R"("max_tokens":200,"stop":["ab","c"])"}) {
    const std::string common =
        std::string(R"({"prompt":["once upon a time","b"],"request_id":"r","seed":9,)") + fields;
    const ClientResponse whole = post(common + "}");
    ASSERT_EQ(whole.status, 200) << whole.body;
    const ClientResponse streamed = post(common + R"(,"stream":true})");
    std::map<int64_t, std::string> text;
    for (const std::string& event : events_of(streamed.body)) {
      if (event == "[DONE]") continue;
      const json::value chunk = parse(event);
      for (const json::value& choice : chunk.at("choices").as_array()) {
        text[choice.at("index").as_int64()] += std::string(choice.at("text").as_string());
      }
    }
    const json::value body = parse(whole.body);
    ASSERT_EQ(text.size(), body.at("choices").as_array().size());
    for (const json::value& choice : body.at("choices").as_array()) {
      EXPECT_EQ(choice.at("text").as_string(), text[choice.at("index").as_int64()]) << fields;
    }
  }
  EXPECT_TRUE(eventually([&] { return idle(); }));
}

TEST_F(RealEngineTest, TimingsAddUp) {
  start();
  for (const char* n : {"1", "3"}) {
    const ClientResponse r = post(
        std::string(R"({"prompt":"once upon a time","max_tokens":20,"return_timings":true,"n":)") +
        n + "}");
    ASSERT_EQ(r.status, 200) << r.body;
    const json::value timings = parse(r.body).at("usage").at("timings");
    const auto ms = [&](const char* name) { return timings.at(name).as_double(); };
    EXPECT_GT(ms("first_token_ms"), 0) << r.body;
    EXPECT_GE(ms("queue_ms"), 0);
    EXPECT_GE(ms("prompt_ms"), 0);
    EXPECT_GT(ms("decode_ms"), 0) << "20 tokens take more than one step";
    EXPECT_NEAR(ms("queue_ms") + ms("prompt_ms"), ms("first_token_ms"), 1e-6);
    EXPECT_NEAR(ms("first_token_ms") + ms("decode_ms"), ms("last_token_ms"), 1e-6);
  }
}

std::vector<double> sums_of_logprobs(const json::value& body) {
  std::vector<double> sums;
  for (const json::value& choice : body.at("choices").as_array()) {
    sums.push_back(0);
    for (const json::value& logprob : choice.at("logprobs").at("token_logprobs").as_array())
      sums.back() += logprob.to_number<double>();
  }
  return sums;
}

TEST_F(RealEngineTest, BeamsAreTheChoicesBestFirst) {
  start();
  const ClientResponse r =
      post(R"({"prompt":"once","use_beam_search":true,"n":5,"max_tokens":7,"logprobs":1})");
  ASSERT_EQ(r.status, 200) << r.body;
  const json::value body = parse(r.body);
  const std::vector<double> sums = sums_of_logprobs(body);
  ASSERT_EQ(sums.size(), 5u);
  EXPECT_TRUE(std::is_sorted(sums.rbegin(), sums.rend())) << r.body;
  std::set<std::string> texts;
  for (const json::value& choice : body.at("choices").as_array())
    texts.emplace(choice.at("text").as_string());
  EXPECT_EQ(texts.size(), 5u);
  EXPECT_EQ(body.at("usage").at("completion_tokens").as_int64(), 35);
  const ClientResponse chosen = post(
      R"({"prompt":"once","use_beam_search":true,"n":5,"max_tokens":7,"early_stopping":"never","length_penalty":0})");
  EXPECT_EQ(chosen.status, 200) << chosen.body;
  EXPECT_EQ(parse(chosen.body).at("choices").as_array().size(), 5u);
  const ClientResponse refused =
      post(R"({"prompt":"once","use_beam_search":true,"n":2,"repetition_penalty":1.5})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("repetition_penalty"), std::string::npos) << refused.body;
  EXPECT_EQ(post(R"({"prompt":"once","use_beam_search":true,"n":15})").status, 400);
  EXPECT_TRUE(eventually([&] { return idle(); }));
  const std::string metrics = TestClient(server->port()).request("GET", "/metrics").body;
  EXPECT_NE(metrics.find("quire:beam_search_steps_total{model_name=\"fake\",engine=\"0\"} 14.0\n"),
            std::string::npos);
}

TEST_F(RealEngineTest, BestOfAnswersWithTheBest) {
  start();
  const std::string common = R"({"prompt":"once","seed":3,"max_tokens":6,"logprobs":0,)";
  const json::value all = parse(post(common + R"("n":6})").body);
  const json::value best = parse(post(common + R"("n":2,"best_of":6})").body);
  std::vector<std::pair<double, std::string>> ranked;
  const std::vector<double> sums = sums_of_logprobs(all);
  for (size_t i = 0; i < sums.size(); ++i)
    ranked.emplace_back(-sums[i], all.at("choices").at(i).at("text").as_string());
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  ASSERT_EQ(best.at("choices").as_array().size(), 2u);
  for (size_t i = 0; i < 2; ++i)
    EXPECT_EQ(best.at("choices").at(i).at("text").as_string(), ranked[i].second);
  EXPECT_EQ(best.at("usage").at("completion_tokens").as_int64(), 36);
  const json::value plain =
      parse(post(R"({"prompt":"once","seed":3,"max_tokens":6,"n":2,"best_of":6})").body);
  EXPECT_TRUE(plain.at("choices").at(0).at("logprobs").is_null());
  EXPECT_EQ(plain.at("choices").at(0).at("text"), best.at("choices").at(0).at("text"));
}

TEST_F(RealEngineTest, GreedyChoicesAreCopiesOfOne) {
  start();
  const std::string common = R"({"prompt":"once","temperature":0,"max_tokens":9,"n":3)";
  const json::value body = parse(post(common + "}").body);
  const json::value one = parse(post(R"({"prompt":"once","temperature":0,"max_tokens":9})").body);
  ASSERT_EQ(body.at("choices").as_array().size(), 3u);
  for (const json::value& choice : body.at("choices").as_array())
    EXPECT_EQ(choice.at("text"), one.at("choices").at(0).at("text"));
  EXPECT_EQ(body.at("usage").at("completion_tokens").as_int64(), 27);
  std::map<int64_t, std::string> streamed;
  for (const std::string& event : events_of(post(common + R"(,"stream":true})").body)) {
    if (event == "[DONE]") continue;
    const json::value chunk = parse(event);
    for (const json::value& choice : chunk.at("choices").as_array())
      streamed[choice.at("index").as_int64()] += std::string(choice.at("text").as_string());
  }
  ASSERT_EQ(streamed.size(), 3u);
  for (const auto& [index, text] : streamed)
    EXPECT_EQ(text, one.at("choices").at(0).at("text").as_string());
}

TEST_F(RealEngineTest, SpecialTokensShowWhenAskedFor) {
  const auto next = [](std::span<const TokenId> context) -> std::optional<TokenId> {
    return context.size() % 2 == 0 ? TokenId{27} : TokenId{0};
  };
  start({}, {.next_token = next});
  const auto text_of = [&](const std::string& fields) {
    const std::string common = R"({"prompt":"bc","max_tokens":3,)" + fields;
    const json::value body = parse(post(common + "}").body);
    const std::string whole(body.at("choices").at(0).at("text").as_string());
    std::string streamed;
    for (const std::string& event : events_of(post(common + R"(,"stream":true})").body)) {
      if (event == "[DONE]") continue;
      streamed += std::string(parse(event).at("choices").at(0).at("text").as_string());
    }
    EXPECT_EQ(streamed, whole) << fields;
    return whole;
  };
  EXPECT_EQ(text_of(R"("ignore_eos":true)"), "a");
  EXPECT_EQ(text_of(R"("skip_special_tokens":true)"), "a");
  EXPECT_EQ(text_of(R"("skip_special_tokens":false)"), "<x>a<x>");
  EXPECT_EQ(text_of(R"("skip_special_tokens":false,"stop":["a<"])"), "<x>");
  EXPECT_EQ(text_of(R"("skip_special_tokens":false,"stop_token_ids":[27])"), "");
  EXPECT_EQ(
      text_of(
          R"("skip_special_tokens":false,"stop_token_ids":[27],"include_stop_str_in_output":true)"),
      "<x>");
  const ClientResponse wrong = post(R"({"prompt":"b","skip_special_tokens":"no"})");
  EXPECT_EQ(wrong.status, 400);
}

TEST_F(RealEngineTest, TenTimesTenTokensCountExactly) {
  start();
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(post(R"({"prompt":"hello","max_tokens":10,"ignore_eos":true})").status, 200);
  }
  ASSERT_TRUE(eventually([&] { return idle(); }));
  const std::string text = TestClient(server->port()).request("GET", "/metrics").body;
  for (const char* line :
       {"vllm:prompt_tokens_total{model_name=\"fake\",engine=\"0\"} 50.0\n",
        "vllm:generation_tokens_total{model_name=\"fake\",engine=\"0\"} 100.0\n",
        "vllm:request_success_total{model_name=\"fake\",engine=\"0\",finished_reason=\"length\"} "
        "10.0\n",
        "vllm:e2e_request_latency_seconds_count{model_name=\"fake\",engine=\"0\"} 10.0\n",
        "vllm:time_to_first_token_seconds_count{model_name=\"fake\",engine=\"0\"} 10.0\n",
        "vllm:inter_token_latency_seconds_count{model_name=\"fake\",engine=\"0\"} 90.0\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line;
  }
}

TEST_F(RealEngineTest, ClientThatLeavesFreesItsBlocks) {
  start({}, {.step_us = 20'000});  // 8 s if no client leaves
  for (const char* stream : {"true", "false"}) {
    TestClient client(server->port());
    client.send(http_request(
        "POST", "/v1/completions",
        std::string(
            R"({"prompt":"hello there","max_tokens":400,"n":2,"ignore_eos":true,"stream":)") +
            stream + "}"));
    ASSERT_TRUE(eventually([&] { return stats().at("running").as_int64() == 2; }));
    client.close();
    EXPECT_TRUE(eventually([&] { return idle(); })) << stream;
  }
}

TEST_F(RealEngineTest, OverloadEndsEveryRequest) {
  EngineOptions options;
  options.scheduler.max_num_seqs = 8;
  options.scheduler.max_num_queued_reqs = 16;
  // While this is held, no step ends, so all clients arrive before any is answered.
  const auto held = std::make_shared<std::atomic<bool>>(false);
  start(std::move(options), {.wait = [held](int64_t) { held->wait(true); }});
  const auto num_seen = [&] {
    const EngineStats stats = engine->stats();
    return stats.requests_received + stats.requests_refused;
  };
  const auto storm = [&] {
    held->store(true);
    const uint64_t num_before = num_seen();
    std::vector<std::unique_ptr<TestClient>> clients;
    for (int i = 0; i < 160; ++i) {
      clients.push_back(std::make_unique<TestClient>(server->port()));
      clients.back()->send(
          http_request("POST", "/v1/completions",
                       R"({"prompt":"hello","max_tokens":16,"ignore_eos":true,"stream":true})"));
    }
    EXPECT_TRUE(eventually([&] { return num_seen() == num_before + clients.size(); }));
    held->store(false);
    held->notify_all();
    std::map<int, int> outcomes;
    for (const auto& client : clients) {
      const ClientResponse r = client->receive();
      EXPECT_TRUE(r.complete);
      if (r.status == 200) {
        EXPECT_EQ(events_of(r.body).back(), "[DONE]");
      } else {
        EXPECT_EQ(r.status, 429) << r.body;
        EXPECT_GE(std::stoi(r.headers.at("retry-after")), 1);
      }
      ++outcomes[r.status];
    }
    return outcomes;
  };
  std::map<int, int> outcomes = storm();
  const int64_t before = rss_kib();
  for (int round = 0; round < 5; ++round) outcomes = storm();
  EXPECT_GT(outcomes[200], 0);
  EXPECT_GT(outcomes[429], 0);
  EXPECT_TRUE(eventually([&] { return idle(); }));
  if (kResidentMemoryTells) {
    EXPECT_LT(rss_kib() - before, 16 * 1024) << "memory grows under overload";
  }
  EXPECT_EQ(post(R"({"prompt":"hello","max_tokens":4})").status, 200);
}

TEST_F(RealEngineTest, ThousandOpenStreamsInFlatMemory) {
  EngineOptions options;
  options.scheduler.max_num_queued_reqs = 2000;
  start(std::move(options));
  const auto open_all = [&] {
    std::vector<std::unique_ptr<TestClient>> clients;
    for (int i = 0; i < 1000; ++i) {
      clients.push_back(std::make_unique<TestClient>(server->port()));
      clients.back()->send(
          http_request("POST", "/v1/completions",
                       R"({"prompt":"hello","max_tokens":8,"ignore_eos":true,"stream":true})"));
    }
    for (const auto& client : clients) {
      const ClientResponse r = client->receive();
      ASSERT_EQ(r.status, 200);
      ASSERT_EQ(events_of(r.body).back(), "[DONE]");
    }
  };
  open_all();
  const int64_t before = rss_kib();
  open_all();
  open_all();
  if (kResidentMemoryTells) {
    EXPECT_LT(rss_kib() - before, 16 * 1024);
  }
  EXPECT_TRUE(eventually([&] { return idle(); }));
}

TEST_F(RealEngineTest, DrainLosesNoAcceptedRequest) {
  start({}, {.step_us = 1000});
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 40; ++i) {
    clients.push_back(std::make_unique<TestClient>(server->port()));
    clients.back()->send(http_request("POST", "/v1/completions",
                                      R"({"prompt":"hello","max_tokens":20,"ignore_eos":true})"));
  }
  ASSERT_TRUE(eventually([&] { return stats().at("requests_total").as_int64() == 40; }));
  server->begin_drain();
  engine->drain(20'000'000);
  EXPECT_TRUE(server->wait_idle(5000));
  server->stop();
  for (const auto& client : clients) {
    const ClientResponse r = client->receive();
    EXPECT_EQ(r.status, 200);
    EXPECT_EQ(parse(r.body).at("usage").at("completion_tokens").as_int64(), 20);
  }
}

}  // namespace
}  // namespace quire::server
