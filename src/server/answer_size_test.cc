// These tests are about the limits on memory for answers that are not streamed.
#include <gtest/gtest.h>

#include <boost/json/array.hpp>

#include "server/json/json_body.h"
#include "server/openai/response_fold.h"
#include "server/testing/server_fixture.h"

namespace quire::server {
namespace {

namespace json = boost::json;

constexpr std::string_view kWithLogprobs = R"({"prompt":"abc","logprobs":5,"n":4})";

ServerOptions limited(uint64_t answer_bytes, uint64_t total_bytes) {
  ServerOptions options;
  options.limits.answer_bytes = answer_bytes;
  options.limits.total_answer_bytes = total_bytes;
  return options;
}

TEST_F(ServerTest, AnAnswerThatOutgrowsItsBoundFailsAndFreesItsRequest) {
  start({.script = say(std::string(50, 'x')), .endless = true}, limited(20'000, 1 << 30));
  const ClientResponse r = post("/v1/completions", kWithLogprobs);
  EXPECT_EQ(r.status, 413) << r.body;
  EXPECT_EQ(parse(r.body).at("error").at("type").as_string(), "RequestTooLargeError");
  EXPECT_TRUE(eventually([&] { return engine->num_open() == 0; }));
}

TEST_F(ServerTest, TheSameAnswerMayBeStreamedOrAskedForWithLess) {
  start_saying(std::string(50, 'x'), limited(20'000, 1 << 30));
  EXPECT_EQ(post("/v1/completions", kWithLogprobs).status, 413);
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"abc","logprobs":5,"n":4,"stream":true})").status,
            200);
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"abc","n":4})").status, 200);
}

TEST_F(ServerTest, AnswersTogetherAreBoundedAndGiveBackWhatTheyHeld) {
  start_saying(std::string(50, 'x'), limited(1 << 30, 300'000));
  const ClientResponse r = post("/v1/completions", R"({"prompt":"abc","logprobs":5,"n":20})");
  EXPECT_EQ(r.status, 429) << r.body;
  EXPECT_TRUE(r.headers.contains("retry-after"));
  for (int i = 0; i < 50; ++i) {  // each takes about 27,000 bytes until it has been sent
    ASSERT_EQ(post("/v1/completions", R"({"prompt":"abc","logprobs":0})").status, 200) << i;
  }
}

TEST_F(ServerTest, LogprobsOfThePromptAreCountedForEveryChoiceBeforeTheyAreComputed) {
  start_saying("x", limited(1 << 20, 1 << 30));
  const std::string prompt(300, 'p');
  const std::string tail = R"(,"prompt":")" + prompt + "\"}";
  EXPECT_EQ(post("/v1/completions", R"({"prompt_logprobs":1)" + tail).status, 200);
  const size_t num_requests = engine->requests().size();
  for (const char* more : {R"("n":3)", R"("n":3,"echo":true,"logprobs":1)"}) {
    const std::string head = std::string("{") + more + R"(,"prompt_logprobs":1)";
    const ClientResponse r = post("/v1/completions", head + tail);
    EXPECT_EQ(r.status, 413) << r.body;
    EXPECT_EQ(parse(r.body).at("error").at("param").as_string(), "prompt_logprobs");
  }
  EXPECT_EQ(engine->requests().size(), num_requests);
}

TEST(MemoryBytes, GrowsWithWhatIsInside) {
  EXPECT_GE(memory_bytes(nullptr), sizeof(json::value));
  EXPECT_GE(memory_bytes(json::string(1000, 'x')), 1000u);
  EXPECT_GE(memory_bytes(json::array(100)), 100 * sizeof(json::value));
  const json::value object = json::object{{"key", json::array(100)}};
  EXPECT_GT(memory_bytes(object), memory_bytes(json::array(100)) + 3);
  EXPECT_LT(memory_bytes(object), 2 * memory_bytes(json::array(100)));
}

TEST(ResponseFoldSize, CountsWhatItCollectsAndNotTheEnvelope) {
  ResponseFold fold(Endpoint::kCompletions);
  const auto chunk = [](std::string text) {
    return json::object{{"id", std::string(100, 'i')},
                        {"choices", json::array{json::object{{"index", 0}, {"text", text}}}}};
  };
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(fold.add(chunk("ab")).ok());
  EXPECT_EQ(fold.held_bytes(), 200u);
  json::object listed = chunk("");
  listed["choices"].at(0).as_object()["logprobs"] = json::object{{"tokens", json::array(50)}};
  ASSERT_TRUE(fold.add(std::move(listed)).ok());
  EXPECT_GT(fold.held_bytes(), 200 + 50 * sizeof(json::value));
}

}  // namespace
}  // namespace quire::server
