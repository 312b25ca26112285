#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>
#include <fstream>
#include <map>

#include "server/batch/batch_line.h"
#include "server/batch_runner.h"
#include "server/testing/server_fixture.h"
#include "tests/support/temp_folder.h"

namespace quire::server {
namespace {

namespace json = boost::json;

std::string request_line(const std::string& id, const std::string& prompt = "abc") {
  return json::serialize(json::object{{"custom_id", id},
                                      {"method", "POST"},
                                      {"url", "/v1/completions"},
                                      {"body", json::object{{"prompt", prompt}}}});
}

TEST(BatchLine, SaysWhatIsWrong) {
  BatchRequest request;
  EXPECT_TRUE(parse_batch_request(request_line("a"), request).ok());
  EXPECT_EQ(request.custom_id, "a");
  for (const auto& [line, said] : std::map<std::string, std::string>{
           {"", "not JSON"},
           {"[1]", "got array"},
           {R"({"url":"/v1/completions","body":{}})", "custom_id: expected a name"},
           {R"({"custom_id":7,"url":"/v1/completions","body":{}})", "got int64"},
           {R"({"custom_id":"","url":"/v1/completions","body":{}})", "got 0"},
           {R"({"custom_id":"a","method":"GET","url":"/v1/completions","body":{}})", "got GET"},
           {R"({"custom_id":"a","url":"/metrics","body":{}})", "got /metrics"},
           {R"({"custom_id":"a","url":"/v1/completions"})",
            "body: expected an object, got nothing"},
           {R"({"custom_id":"a","url":"/v1/completions","body":{"stream":true}})", "got true"}}) {
    const Status status = parse_batch_request(line, request);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << line;
    EXPECT_NE(status.message().find(said), std::string::npos) << status.message();
  }
}

class BatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options.input = (dir_ / "in.jsonl").string();
    options.output = (dir_ / "out.jsonl").string();
  }

  void write_input(const std::string& text) { std::ofstream(options.input) << text; }
  Result<BatchCounts> run(std::string text = "hello") {
    ServedModel model = scripted_model(
        std::make_shared<ScriptedEngine>(ScriptedEngine::Options{.script = say(std::move(text))}));
    return run_batch(options, {}, std::move(model));
  }
  std::map<std::string, json::value> answers() {
    std::map<std::string, json::value> found;
    std::ifstream file(options.output);
    for (std::string line; std::getline(file, line);) {
      const json::value answer = parse(line);
      const json::value& id = answer.at("custom_id");
      const std::string name = id.is_null() ? "?" : std::string(id.as_string());
      EXPECT_FALSE(found.contains(name)) << name << " was answered twice";
      found[name] = answer;
    }
    return found;
  }

  const test::TempFolder dir_;
  BatchOptions options;
};

TEST_F(BatchTest, EveryLineGetsOneAnswer) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += request_line(fmt::format("r{}", i)) + "\n\n";
  text += "no json\n" + std::string(R"({"custom_id":"get","url":"/health","body":{}})") + "\n";
  text += R"({"custom_id":"bad","url":"/v1/completions","body":{"prompt":"a","max_tokens":-1}})";
  write_input(text);
  options.max_concurrent = 7;
  int64_t last = 0;
  options.on_progress = [&](int64_t done, int64_t total) {
    EXPECT_GE(done, last);
    EXPECT_LE(done, total);
    last = done;
  };
  const auto counts = run();
  ASSERT_TRUE(counts.ok()) << counts.status().message();
  EXPECT_EQ(counts->num_requests, 203);
  EXPECT_EQ(counts->num_answered, 200);
  EXPECT_EQ(counts->num_failed, 3);
  auto found = answers();
  ASSERT_EQ(found.size(), 203u);
  for (int i = 0; i < 200; ++i) {
    const json::value& answer = found.at(fmt::format("r{}", i));
    EXPECT_TRUE(answer.at("error").is_null());
    EXPECT_EQ(answer.at("response").at("status_code").as_int64(), 200);
    EXPECT_EQ(answer.at("response").at("body").at("choices").at(0).at("text").as_string(), "hello");
  }
  EXPECT_TRUE(found.at("get").at("response").is_null());
  EXPECT_TRUE(found.at("?").at("error").at("message").as_string().find("line 401") !=
              json::string::npos)
      << json::serialize(found.at("?"));
  const json::value& bad = found.at("bad").at("response");
  EXPECT_EQ(bad.at("status_code").as_int64(), 400);
  EXPECT_NE(bad.at("body").at("error").at("message").as_string().find("max_tokens"),
            json::string::npos);
}

TEST_F(BatchTest, GoesOnWhereItWasCut) {
  std::string text;
  for (int i = 0; i < 20; ++i) text += request_line(fmt::format("r{}", i)) + "\n";
  write_input(text);
  ASSERT_TRUE(run("first").ok());
  // The earlier run was stopped in the middle of a line, and one of its answers was an error.
  std::ifstream before(options.output);
  std::string kept, line;
  for (int i = 0; i < 12; ++i) {
    std::getline(before, line);
    kept += line + "\n";
  }
  kept += R"({"custom_id":"r19","response":{"status_code":503,"body":{}},"error":null})"
          "\n";
  std::ofstream(options.output, std::ios::trunc) << kept << R"({"custom_id":"r1)";
  const auto counts = run("second");
  ASSERT_TRUE(counts.ok()) << counts.status().message();
  EXPECT_EQ(counts->num_kept, 12);
  EXPECT_EQ(counts->num_answered, 8);
  std::map<std::string, int> texts;
  std::ifstream after(options.output);
  while (std::getline(after, line)) {
    if (!answered_id(line).empty())
      ++texts[std::string(
          parse(line).at("response").at("body").at("choices").at(0).at("text").as_string())];
  }
  EXPECT_EQ(texts["first"], 12);
  EXPECT_EQ(texts["second"], 8);
  options.overwrite = true;
  const auto anew = run("third");
  ASSERT_TRUE(anew.ok());
  EXPECT_EQ(anew->num_answered, 20);
  EXPECT_EQ(answers().size(), 20u);
}

TEST_F(BatchTest, FilesThatCannotBe) {
  EXPECT_EQ(run().status().code(), StatusCode::kNotFound);
  write_input(request_line("a"));
  options.output = options.input;
  EXPECT_EQ(run().status().code(), StatusCode::kInvalidArgument);
  options.output = (dir_ / "none" / "out.jsonl").string();
  EXPECT_EQ(run().status().code(), StatusCode::kInvalidArgument);
  options.output = "/dev/full";
  const auto full = run();
  EXPECT_EQ(full.status().code(), StatusCode::kUnavailable) << full.status().message();
}

}  // namespace
}  // namespace quire::server
