// /v1/files and /v1/batches over a scripted engine and a real socket.
#include <gtest/gtest.h>

#include <atomic>
#include <boost/json/serialize.hpp>
#include <set>

#include "server/testing/server_fixture.h"
#include "tests/support/temp_folder.h"

namespace quire::server {
namespace {

namespace json = boost::json;

class BatchesTest : public ServerTest {
 protected:
  void TearDown() override { server.reset(); }
  void start_keeping_files(ScriptedEngine::Options engine_options, int32_t concurrency = 16,
                           ServerOptions options = {}) {
    extras.batch_concurrency = concurrency;
    extras.files_dir = dir_.string();
    start(std::move(engine_options), std::move(options));
  }
  ClientResponse upload(std::string_view data, std::string_view purpose = "batch") {
    const std::string body = fmt::format(
        "--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\n{}\r\n--b\r\n"
        "Content-Disposition: form-data; name=\"file\"; "
        "filename=\"in.jsonl\"\r\n\r\n{}\r\n--b--\r\n",
        purpose, data);
    return TestClient(server->port())
        .request("POST", "/v1/files", body, {"Content-Type: multipart/form-data; boundary=b"});
  }
  std::string uploaded(std::string_view data) {
    return std::string(parse(upload(data).body).at("id").as_string());
  }
  ClientResponse begin(std::string_view file, std::string_view endpoint = "/v1/completions") {
    return post("/v1/batches",
                fmt::format(R"({{"input_file_id":"{}","endpoint":"{}","completion_window":"24h"}})",
                            file, endpoint));
  }
  json::object batch(const std::string& id) {
    return parse(get("/v1/batches/" + id).body).as_object();
  }
  // Waits until the batch has ended and returns it.
  json::object ended(const ClientResponse& begun) {
    EXPECT_EQ(begun.status, 200) << begun.body;
    const std::string id(parse(begun.body).at("id").as_string());
    static const std::set<std::string> kEnds = {"completed", "failed", "cancelled", "expired"};
    EXPECT_TRUE(eventually(
        [&] { return kEnds.contains(std::string(batch(id).at("status").as_string())); }));
    return batch(id);
  }
  std::string content(const json::value& file_id) {
    return get(fmt::format("/v1/files/{}/content", std::string_view(file_id.as_string()))).body;
  }
  static std::string line(int i, std::string_view more = "") {
    return fmt::format(
        R"({{"custom_id":"r{}","method":"POST","url":"/v1/completions","body":{{"prompt":"a"{}}}}})"
        "\n",
        i, more);
  }

  const test::TempFolder dir_;
};

TEST_F(BatchesTest, FilesComeAndGo) {
  start_keeping_files({.script = say("x")});
  const json::value file = parse(upload("one\ntwo\n").body);
  const std::string id(file.at("id").as_string());
  EXPECT_EQ(file.at("bytes").as_int64(), 8);
  EXPECT_EQ(file.at("filename").as_string(), "in.jsonl");
  EXPECT_EQ(parse(get("/v1/files/" + id).body), file);
  EXPECT_EQ(get("/v1/files/" + id + "/content").body, "one\ntwo\n");
  const std::string second = uploaded("x");
  EXPECT_EQ(parse(get("/v1/files").body).at("data").as_array().size(), 2u);
  const json::value page = parse(get("/v1/files?limit=1").body);
  EXPECT_EQ(page.at("has_more"), true);
  const std::string after(page.at("last_id").as_string());
  const json::value rest = parse(get("/v1/files?after=" + after).body);
  ASSERT_EQ(rest.at("data").as_array().size(), 1u);
  EXPECT_NE(rest.at("data").at(0).at("id"), page.at("data").at(0).at("id"));
  const auto removed = TestClient(server->port()).request("DELETE", "/v1/files/" + id, "", {});
  EXPECT_EQ(parse(removed.body).at("deleted"), true);
  EXPECT_EQ(get("/v1/files/" + id).status, 404);
  EXPECT_EQ(parse(get("/v1/files").body).at("data").at(0).at("id").as_string(), second);
}

TEST_F(BatchesTest, RefusalsSayWhatWasExpected) {
  start_keeping_files({.script = say("x")});
  EXPECT_EQ(error_message(upload("x", "fine-tune")), "purpose: expected batch, got 'fine-tune'");
  EXPECT_EQ(post("/v1/files", "{}").status, 400);
  EXPECT_EQ(get("/v1/files/file-nope").status, 404);
  EXPECT_EQ(get("/v1/files?limit=0").status, 400);
  EXPECT_EQ(get("/v1/files?after=nope").status, 400);
  const std::string file = uploaded(line(0));
  EXPECT_EQ(begin("file-nope").status, 400);
  EXPECT_EQ(begin(file, "/v1/nope").status, 400);
  EXPECT_EQ(post("/v1/batches",
                 fmt::format(R"({{"input_file_id":"{}","endpoint":"/v1/completions"}})", file))
                .status,
            400);
  EXPECT_EQ(
      error_message(post(
          "/v1/batches",
          fmt::format(
              R"({{"input_file_id":"{}","endpoint":"/v1/completions","completion_window":"24h","metadata":{{"{}":""}}}})",
              file, std::string(65, 'm')))),
      "metadata: expected texts of at most 512 bytes under names of at most 64, got a string");
  EXPECT_EQ(get("/v1/batches/batch_nope").status, 404);
  EXPECT_EQ(post("/v1/batches/batch_nope/cancel", "").status, 404);
  server.reset();
  extras = {};
  start_saying("x");
  EXPECT_EQ(get("/v1/files").status, 404);
}

TEST_F(BatchesTest, EveryRequestIsAnsweredOnce) {
  start_keeping_files({.script = say("hello")}, 3);
  std::string input;
  for (int i = 0; i < 40; ++i) input += line(i);
  input += line(40, R"(,"max_tokens":-1)");
  const json::object batch = ended(begin(uploaded(input)));
  EXPECT_EQ(batch.at("status").as_string(), "completed");
  EXPECT_EQ(json::serialize(batch.at("request_counts")),
            R"({"total":41,"completed":40,"failed":1})");
  std::istringstream output(content(batch.at("output_file_id")));
  std::set<std::string> ids;
  for (std::string text; std::getline(output, text);) {
    const json::value answer = parse(text);
    ids.insert(std::string(answer.at("custom_id").as_string()));
    EXPECT_EQ(answer.at("response").at("body").at("choices").at(0).at("text").as_string(), "hello");
  }
  EXPECT_EQ(ids.size(), 40u);
  const json::value bad = parse(content(batch.at("error_file_id")));
  EXPECT_EQ(bad.at("custom_id").as_string(), "r40");
  EXPECT_EQ(bad.at("response").at("status_code").as_int64(), 400);
  EXPECT_EQ(parse(get("/v1/batches").body).at("data").at(0), json::value(batch));
}

TEST_F(BatchesTest, AWrongInputFailsWithItsLines) {
  start_keeping_files({.script = say("x")});
  const json::object batch = ended(begin(uploaded(
      line(0) + line(0) + "no json\n" +
      R"({"custom_id":"c","method":"POST","url":"/v1/embeddings","body":{"input":"a"}})")));
  EXPECT_EQ(batch.at("status").as_string(), "failed");
  const json::array& errors = batch.at("errors").at("data").as_array();
  ASSERT_EQ(errors.size(), 3u);
  EXPECT_EQ(errors[0].at("code").as_string(), "duplicate_custom_id");
  EXPECT_EQ(errors[1].at("line").as_int64(), 3);
  EXPECT_EQ(errors[2].at("code").as_string(), "mismatched_endpoint");
  EXPECT_EQ(engine->requests().size(), 0u);
  EXPECT_EQ(ended(begin(uploaded("\n"))).at("errors").at("data").at(0).at("code").as_string(),
            "empty_file");
}

TEST_F(BatchesTest, ACancelledBatchKeepsWhatWasAnswered) {
  start_keeping_files({.script = say("x"), .manual = true}, 2);
  const ClientResponse begun = begin(uploaded(line(0) + line(1) + line(2) + line(3)));
  const std::string id(parse(begun.body).at("id").as_string());
  ASSERT_TRUE(eventually([&] { return engine->num_open() == 2; }));
  EXPECT_EQ(batch(id).at("status").as_string(), "in_progress");
  const ClientResponse cancelled = post("/v1/batches/" + id + "/cancel", "");
  EXPECT_EQ(parse(cancelled.body).at("status").as_string(), "cancelling") << cancelled.body;
  ASSERT_TRUE(eventually([&] {
    engine->push();
    return batch(id).at("status") == "cancelled";
  }));
  const json::object end = batch(id);
  EXPECT_LE(engine->requests().size(), 3u);
  EXPECT_GE(end.at("request_counts").at("completed").as_int64(), 2);
  EXPECT_FALSE(content(end.at("output_file_id")).empty());
}

TEST_F(BatchesTest, ARestartedServerGoesOn) {
  start_keeping_files({.script = say("x"), .manual = true}, 1);
  const std::string file = uploaded(line(0) + line(1) + line(2));
  const std::string id(parse(begin(file).body).at("id").as_string());
  ASSERT_TRUE(eventually([&] {
    engine->push();
    return batch(id).at("request_counts").at("completed").as_int64() >= 1;
  }));
  server->begin_drain();
  // Running requests are finished; no others are started.
  std::atomic<bool> has_stopped{false};
  std::thread push([&] {
    while (!has_stopped) engine->push();
  });
  server->stop();
  has_stopped = true;
  push.join();
  server.reset();
  start_keeping_files({.script = say("y")}, 1);
  ASSERT_TRUE(eventually([&] { return batch(id).at("status") == "completed"; }));
  const json::object end = batch(id);
  EXPECT_EQ(json::serialize(end.at("request_counts")), R"({"total":3,"completed":3,"failed":0})");
  const std::string output = content(end.at("output_file_id"));
  EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 3);
  EXPECT_NE(output.find(R"("text":"x")"), std::string::npos)
      << "an answer of the first server is kept";
  EXPECT_LE(engine->requests().size(), 2u);
}

TEST_F(BatchesTest, KeysSeeTheirOwn) {
  ServerOptions options;
  options.api_keys = {"k1", "k2"};
  start_keeping_files({.script = say("x")}, 16, options);
  const std::string body =
      "--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--b\r\n"
      "Content-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nx\r\n--b--\r\n";
  const ClientResponse mine =
      TestClient(server->port())
          .request("POST", "/v1/files", body,
                   {"Content-Type: multipart/form-data; boundary=b", "Authorization: Bearer k1"});
  ASSERT_EQ(mine.status, 200) << mine.body;
  const std::string path = "/v1/files/" + std::string(parse(mine.body).at("id").as_string());
  EXPECT_EQ(get(path, {"Authorization: Bearer k1"}).status, 200);
  EXPECT_EQ(get(path, {"Authorization: Bearer k2"}).status, 404);
  EXPECT_EQ(get(path).status, 401);
}

}  // namespace
}  // namespace quire::server
