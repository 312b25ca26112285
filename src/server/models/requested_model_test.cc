#include "server/models/requested_model.h"

#include <gtest/gtest.h>

namespace quire::server {
namespace {

std::string of(std::string body, std::string query = "", std::string type = "application/json") {
  HttpRequest request{.method = "POST", .path = "/v1/x", .query = std::move(query)};
  request.headers = {{"Content-Type", std::move(type)}};
  request.body = std::move(body);
  return requested_model(request);
}

TEST(RequestedModel, TheMemberOfTheOutermostObject) {
  EXPECT_EQ(of(R"({"messages": [{"model": "no", "role": "user"}], "model": "a"})"), "a");
  EXPECT_EQ(of(R"({"model": "a\u00e4\n", "x": 1})"), "a\xc3\xa4\n");
  EXPECT_EQ(of(R"({"mod\u0065l":"a","name":"b"})"), "a");
  EXPECT_EQ(of(R"({"name":"b","stream":false})"), "b");
  EXPECT_EQ(of(R"({"model": 5, "name": {"name": "x"}})"), "");
  EXPECT_EQ(of(R"({"model": ["x"]})"), "");
  EXPECT_EQ(of(R"([{"model": "x"}])"), "");
  EXPECT_EQ(of(R"("model")"), "");
}

TEST(RequestedModel, ReadsNoFurtherThanItMust) {
  EXPECT_EQ(of(R"({"model":"a","messages":[{"broken)"), "a");
  EXPECT_EQ(of(R"({"messages":[{"broken)"), "");
  EXPECT_EQ(of(R"({"a":)" + std::string(1000, '[')), "");
}

TEST(RequestedModel, FormsAndQueriesNameOneToo) {
  EXPECT_EQ(of("--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nwhisper\r\n--x--\r\n",
               "", "multipart/form-data; boundary=x"),
            "whisper");
  EXPECT_EQ(of("", "a=b&model=m"), "m");
  EXPECT_EQ(of(R"({"model":"body"})", "model=query"), "query");
}

}  // namespace
}  // namespace quire::server
