// These tests are about the routes of llama.cpp's server, over a scripted engine and a real socket.
#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>

#include "server/llama/fill_in.h"
#include "server/testing/server_fixture.h"

namespace quire::server {
namespace {

namespace json = boost::json;

std::vector<json::object> json_events_of(std::string_view body) {
  std::vector<json::object> events;
  for (size_t at = body.find("data: "); at != body.npos; at = body.find("data: ", at + 1)) {
    const size_t begin = at + 6;
    events.push_back(parse(body.substr(begin, body.find("\n\n", at) - begin)).as_object());
  }
  return events;
}

TEST_F(ServerTest, LlamaStreamIsTheAnswerInPieces) {
  start_saying("a\nb");
  const json::object whole =
      parse(post("/completion", R"({"prompt":"ab","return_tokens":true})").body).as_object();
  EXPECT_EQ(whole.at("content").as_string(), "a\nb");
  EXPECT_EQ(whole.at("tokens"), parse("[97,10,98]"));
  EXPECT_EQ(whole.at("stop"), true);
  EXPECT_EQ(whole.at("stop_type").as_string(), "eos");
  EXPECT_EQ(whole.at("has_new_line"), true);
  EXPECT_EQ(whole.at("tokens_predicted").as_int64(), 3);
  EXPECT_EQ(whole.at("tokens_evaluated").as_int64(), 2);
  EXPECT_EQ(whole.at("prompt").as_string(), "ab");

  const ClientResponse streamed =
      post("/completion", R"({"prompt":[97,98],"return_tokens":true,"stream":true})");
  const std::vector<json::object> events = json_events_of(streamed.body);
  ASSERT_GT(events.size(), 1u) << streamed.body;
  std::string content;
  json::array tokens;
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    EXPECT_EQ(events[i].at("stop"), false);
    content += events[i].at("content").as_string();
    for (const json::value& id : events[i].at("tokens").as_array()) tokens.push_back(id);
  }
  EXPECT_EQ(content, "a\nb");
  EXPECT_EQ(tokens, whole.at("tokens"));
  for (const char* same : {"stop", "stop_type", "tokens_predicted", "tokens_evaluated",
                           "has_new_line", "prompt", "model"}) {
    EXPECT_EQ(events.back().at(same), whole.at(same)) << same;
  }
}

TEST_F(ServerTest, LlamaRequestsBecomeCompletions) {
  start_saying("x");
  const ClientResponse r = post("/completion", R"({"prompt":"p","n_predict":7,"temperature":0.5,
    "top_k":5,"repeat_penalty":1.5,"seed":3,"stop":["a","b","c","d","e"],"logit_bias":[[65,false],[66,1.5]],
    "cache_prompt":true,"mirostat":0,"typical_p":1.0,"n_probs":0})");
  ASSERT_EQ(r.status, 200) << r.body;
  const SamplingParams params = engine->requests().at(0).params;
  EXPECT_EQ(params.max_tokens, 7);
  EXPECT_EQ(params.top_k, 5);
  EXPECT_EQ(params.repetition_penalty, 1.5f);
  EXPECT_EQ(params.seed, 3u);
  EXPECT_EQ(params.stop.size(), 5u);
  const std::vector<std::pair<TokenId, float>> biases = {{65, -100.0f}, {66, 1.5f}};
  EXPECT_EQ(params.logit_bias, biases);
  // Without n_predict, an answer may be as long as the context allows.
  EXPECT_EQ(post("/completion", R"({"prompt":"p","n_predict":-1,"seed":-1})").status, 200);
  EXPECT_EQ(engine->requests().at(1).params.max_tokens, 1024);
  EXPECT_FALSE(engine->requests().at(1).params.seed);
}

TEST_F(ServerTest, LlamaRefusalsNameTheField) {
  start_saying("x");
  const auto refused = [this](std::string_view path, std::string_view body, int status = 400) {
    const ClientResponse r = post(path, body);
    EXPECT_EQ(r.status, status) << body << r.body;
    return error_message(r);
  };
  EXPECT_EQ(refused("/completion", "{}"), "prompt: expected a prompt, got none");
  EXPECT_EQ(refused("/completion", R"({"prompt":["a","b"]})"),
            "prompt: expected a text or a list of token ids, got a list of 2");
  EXPECT_EQ(refused("/completion", R"({"prompt":"a","n_predict":0})"),
            "n_predict: expected an integer other than 0, got the number 0");
  EXPECT_EQ(refused("/completion", R"({"prompt":"a","mirostat":2})"),
            "mirostat: expected 0: this server does not have it, got the number 2");
  EXPECT_EQ(refused("/completion", R"({"prompt":"a","grammar":"root ::= \"a\"","json_schema":{}})"),
            "json_schema: expected one rule, got two");
  EXPECT_NE(refused("/infill", R"({"input_prefix":"a","input_suffix":"b"})", 501)
                .find("expected a model with tokens"),
            std::string::npos);
}

TEST_F(ServerTest, LlamaTellsOfItsModelAndTokens) {
  start_saying("x");
  const json::value props = parse(get("/props").body);
  EXPECT_EQ(props.at("default_generation_settings").at("n_ctx").as_int64(), 1024);
  EXPECT_EQ(props.at("modalities").at("vision"), false);
  EXPECT_TRUE(parse(get("/slots").body).is_array());
  EXPECT_EQ(post("/tokenize", R"({"content":"ab"})").body, R"({"tokens":[97,98]})");
  EXPECT_EQ(post("/tokenize", R"({"content":"a","with_pieces":true})").body,
            R"({"tokens":[{"id":97,"piece":"a"}]})");
  EXPECT_EQ(post("/tokenize", R"({"content":1})").status, 400);
}

// A codec of bytes, with the tokens for the texts around a gap above them.
class GapCodec final : public TextCodec {
 public:
  explicit GapCodec(bool knows_files) : knows_files_(knows_files) {}
  Result<std::vector<TokenId>> encode(std::string_view text, bool add_special) const override {
    return bytes_.encode(text, add_special);
  }
  std::string decode(std::span<const TokenId>, bool) const override { return {}; }
  std::string token_bytes(TokenId) const override { return {}; }
  std::string token_piece(TokenId) const override { return {}; }
  std::vector<MarkToken> mark_tokens() const override {
    std::vector<MarkToken> marks = {{300, "<|fim_prefix|>", true},
                                    {301, "<|fim_suffix|>", true},
                                    {302, "<|fim_middle|>", true}};
    if (knows_files_) {
      marks.push_back({303, "<|repo_name|>", true});
      marks.push_back({304, "<|file_sep|>", true});
    }
    return marks;
  }
  int32_t vocab_size() const override { return 305; }

 private:
  bool knows_files_;
  ByteCodec bytes_{true};
};

// Returns bytes as they are and the tokens above them as "[id]".
std::string shown(const std::vector<TokenId>& ids) {
  std::string text;
  for (const TokenId id : ids) {
    text += id < 256 ? std::string(1, static_cast<char>(id)) : fmt::format("[{}]", id);
  }
  return text;
}

TEST(FillIn, PromptsOfModelsWithAndWithoutFiles) {
  EXPECT_FALSE(find_fill_in_tokens(ByteCodec()));
  const FillIn plain{.others = {}, .before = "ab", .after = "cd", .begun = "e"};
  const FillIn with_file{.others = {{"f.c", "x"}}, .before = "ab", .after = "cd", .begun = ""};
  for (const bool knows_files : {false, true}) {
    const GapCodec codec(knows_files);
    const auto tokens = find_fill_in_tokens(codec);
    ASSERT_TRUE(tokens);
    EXPECT_EQ(shown(fill_in_prompt(plain, *tokens, codec).value()), "[256][300]ab[301]cd[302]e");
    EXPECT_EQ(shown(fill_in_prompt(with_file, *tokens, codec).value()),
              knows_files ? "[256][303]project\n[304]f.c\nx[304]filename\n[300]ab[301]cd[302]"
                          : "[256]\n\n--- snippet ---\n\nx[300]ab[301]cd[302]");
  }
}

}  // namespace
}  // namespace quire::server
