#include "gateway/kv_legs.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

namespace quire::gateway {
namespace {

namespace json = boost::json;

server::HttpRequest request(std::string body, std::string path = "/v1/completions") {
  server::HttpRequest request;
  request.method = "POST";
  request.path = std::move(path);
  request.body = std::move(body);
  return request;
}

TEST(KvLegs, TheFirstLegAsksForOneTokenAndTheKv) {
  const auto body = prefill_body(request(
      R"({"prompt":"a","stream":true,"stream_options":{"include_usage":true},"max_tokens":50,)"
      R"("min_tokens":9,"n":3,"seed":18446744073709551615,"cache_salt":"t"})"));
  ASSERT_TRUE(body.has_value());
  const json::object leg = json::parse(*body).as_object();
  EXPECT_EQ(leg.at("max_tokens"), 1);
  EXPECT_EQ(leg.at("stream"), false);
  EXPECT_EQ(leg.at("cache_salt"), "t");
  EXPECT_EQ(leg.at("kv_transfer_params").at("do_remote_decode"), true);
  for (const char* name : {"stream_options", "min_tokens", "n", "max_completion_tokens"})
    EXPECT_FALSE(leg.contains(name)) << name;
  const auto chat =
      prefill_body(request(R"({"messages":[],"max_completion_tokens":9})", "/v1/chat/completions"));
  ASSERT_TRUE(chat.has_value());
  EXPECT_EQ(json::parse(*chat).at("max_completion_tokens"), 1);
}

TEST(KvLegs, OneLegWhereTwoWouldNotDo) {
  for (const char* body :
       {"", "[]", "{", R"({"prompt":["a","b"]})", R"({"prompt":[[1],[2]]})",
        R"({"prompt":"a","max_tokens":0})", R"({"prompt":"a","prompt_logprobs":1})",
        R"({"prompt":"a","echo":true})", R"({"prompt":"a","kv_transfer_params":{}})"}) {
    EXPECT_FALSE(prefill_body(request(body)).has_value()) << body;
  }
  EXPECT_TRUE(prefill_body(request(R"({"prompt":[1,2]})")).has_value());
  EXPECT_FALSE(prefill_body(request(R"({"input":"a"})", "/v1/embeddings")).has_value());
  server::HttpRequest get = request("{}");
  get.method = "GET";
  EXPECT_FALSE(prefill_body(get).has_value());
}

TEST(KvLegs, TheSecondLegIsTheClientsBodyWithWhatIsHandedOver) {
  const std::string answer = R"({"id":"x","kv_transfer_params":{"remote_num_tokens":16}})";
  EXPECT_EQ(decode_body(R"({"temperature":0.70, "prompt":"{"})", answer),
            R"({"kv_transfer_params":{"remote_num_tokens":16},"temperature":0.70, "prompt":"{"})");
  EXPECT_EQ(decode_body(" { } ", answer), R"( {"kv_transfer_params":{"remote_num_tokens":16} } )");
  for (const char* nothing : {"", "[]", "{}", R"({"kv_transfer_params":null})", "{\"kv"})
    EXPECT_EQ(decode_body(R"({"prompt":"a"})", nothing), R"({"prompt":"a"})");
}

}  // namespace
}  // namespace quire::gateway
