// These tests are about the pooling routes over the real engine. The model is a hash
// (FakeExecutor).
#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>
#include <boost/json/value_to.hpp>
#include <cstring>

#include "base/base64.h"
#include "engine/adapters/adapter_registry.h"
#include "engine/engine_options.h"
#include "engine/output/similarity.h"
#include "engine/testing/engine_test_support.h"
#include "engine/testing/fake_executor.h"
#include "server/http_server.h"
#include "server/openai/tokenizer_codec.h"
#include "server/pooling/pooling_answer.h"
#include "server/testing/scripted_engine.h"
#include "server/testing/server_fixture.h"

namespace quire::server {
namespace {

namespace json = boost::json;

class PoolingTest : public ::testing::Test {
 protected:
  void start(PoolingInfo pooling, std::vector<std::string> labels = {}, bool generates = false,
             const std::vector<NamedAdapter>& tasks = {}) {
    FakeExecutorOptions fake;
    fake.vocab_size = 257;
    fake.max_model_len = 64;
    fake.generates = generates;
    fake.pooling = pooling;
    const auto tokenizer = test::byte_tokenizer();
    auto made = make_async_engine({}, std::make_unique<FakeExecutor>(fake), tokenizer,
                                  std::make_shared<SteadyClock>());
    ASSERT_TRUE(made.ok()) << made.status().message();
    ServedModel model;
    model.names = {"fake"};
    model.engine = std::move(made).value();
    model.codec = codec != nullptr ? codec : make_text_codec(tokenizer);
    model.labels = std::move(labels);
    model.texts = std::move(texts);
    if (pairs_are_chats) {
      model.pairs_are_chats = true;
      model.render_chat = scripted_model(model.engine).render_chat;
    }
    for (const NamedAdapter& task : tasks) {
      if (model.adapters == nullptr) {
        model.adapters = std::make_shared<AdapterRegistry>(
            [](const std::string& name, const std::string& path) {
              auto adapter = std::make_shared<Adapter>();
              adapter->name = name;
              adapter->content_key = path;
              return Result<std::shared_ptr<const Adapter>>(std::move(adapter));
            },
            8);
      }
      ASSERT_TRUE(model.adapters->load(task).ok());
    }
    ServerOptions options;
    options.port = 0;
    auto created = HttpServer::create(std::move(options), std::move(model));
    ASSERT_TRUE(created.ok()) << created.status().message();
    server = std::move(created).value();
    ASSERT_TRUE(server->start().ok());
  }
  ClientResponse post(std::string_view path, std::string_view body) {
    return TestClient(server->port()).post(path, body, {});
  }
  json::value ask(std::string_view path, std::string_view body) {
    const ClientResponse response = post(path, body);
    EXPECT_EQ(response.status, 200) << response.body;
    return parse(response.body);
  }

  // The texts of the next model that is started.
  SentenceTexts texts;
  std::shared_ptr<const TextCodec> codec;  // null: that of the fake model
  bool pairs_are_chats = false;
  std::unique_ptr<HttpServer> server;
};

TEST_F(PoolingTest, EmbeddingsOfEveryFormOfInput) {
  start({.embedding_size = 6});
  for (const char* body :
       {R"({"input":"ab"})", R"({"input":["ab"]})", R"({"input":[97,98],"model":"fake"})",
        R"({"input":[[97,98]],"encoding_format":"float"})"}) {
    const json::value answer = ask("/v1/embeddings", body);
    EXPECT_EQ(answer.at("object").as_string(), "list");
    EXPECT_EQ(answer.at("model").as_string(), "fake");
    ASSERT_EQ(answer.at("data").as_array().size(), 1u) << body;
    EXPECT_EQ(answer.at("data").at(0).at("embedding").as_array().size(), 6u);
    EXPECT_EQ(answer.at("usage").at("prompt_tokens").as_int64(), 2);
    EXPECT_EQ(answer.at("data").at(0).at("embedding"),
              ask("/v1/embeddings", R"({"input":["x","ab"]})").at("data").at(1).at("embedding"));
  }
}

// Its tokens of a text are others where special tokens stand beside it.
class UnlikeCodec final : public TextCodec {
 public:
  Result<std::vector<TokenId>> encode(std::string_view text, bool add_special) const override {
    return std::vector<TokenId>(text.size(), add_special ? 1 : 2);
  }
  std::string decode(std::span<const TokenId>, bool) const override { return {}; }
  std::string token_bytes(TokenId) const override { return {}; }
  std::string token_piece(TokenId) const override { return {}; }
  int32_t vocab_size() const override { return 257; }
};

TEST_F(PoolingTest, ATextThatCannotBeCutIsRefused) {
  codec = std::make_shared<UnlikeCodec>();
  start({.embedding_size = 4});
  const ClientResponse refused = post("/v1/embeddings", R"({"input":")" + std::string(70, 'a') +
                                                            R"(","truncate_prompt_tokens":-1})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(error_param(refused), "input");
}

TEST_F(PoolingTest, Base64IsTheSameFloats) {
  start({.embedding_size = 4});
  const json::value floats = ask("/v1/embeddings", R"({"input":"abc"})");
  const json::value packed = ask("/v1/embeddings", R"({"input":"abc","encoding_format":"base64"})");
  const auto bytes =
      base64_decode(std::string_view(packed.at("data").at(0).at("embedding").as_string()));
  ASSERT_TRUE(bytes && bytes->size() == 16);
  for (size_t i = 0; i < 4; ++i) {
    float x;
    std::memcpy(&x, bytes->data() + 4 * i, 4);
    EXPECT_FLOAT_EQ(x, floats.at("data").at(0).at("embedding").at(i).to_number<float>());
  }
  const ClientResponse raw = post("/v1/embeddings", R"({"input":"abc","encoding_format":"bytes"})");
  EXPECT_EQ(raw.body, *bytes);
}

TEST_F(PoolingTest, DimensionsAndLengthsAreChecked) {
  start({.embedding_size = 6});
  EXPECT_EQ(ask("/v1/embeddings", R"({"input":"ab","dimensions":3})")
                .at("data")
                .at(0)
                .at("embedding")
                .as_array()
                .size(),
            3u);
  const std::string text(70, 'a');
  const auto with = [&](std::string_view more) {
    return fmt::format(R"({{"input":["b","{}"]{}}})", text, more);
  };
  const ClientResponse long_one = post("/v1/embeddings", with(""));
  EXPECT_EQ(long_one.status, 400);
  EXPECT_EQ(error_param(long_one), "input.1");
  EXPECT_NE(error_message(long_one).find("truncate_prompt_tokens"), std::string::npos);
  EXPECT_EQ(ask("/v1/embeddings", with(R"(,"truncate_prompt_tokens":-1)"))
                .at("usage")
                .at("prompt_tokens")
                .as_int64(),
            65);
  for (const char* bad :
       {R"({"input":[]})", R"({"input":""})", R"({"input":3})", R"({"input":["a",3]})",
        R"({"input":[300]})", R"({"input":"a","dimensions":7})", R"({"input":"a","dimensions":0})",
        R"({"input":"a","encoding_format":"text"})", R"({"input":"a","truncate_prompt_tokens":-2})",
        R"({})"}) {
    EXPECT_EQ(post("/v1/embeddings", bad).status, 400) << bad;
  }
  EXPECT_EQ(post("/v1/embeddings", R"({"input":"a","model":"other"})").status, 404);
}

TEST_F(PoolingTest, OllamaEmbed) {
  start({.embedding_size = 6});
  const json::value answer = ask("/api/embed", R"({"input":["ab","x"],"keep_alive":"5m"})");
  EXPECT_TRUE(answer.at("model").is_string());
  EXPECT_EQ(answer.at("prompt_eval_count").as_int64(), 3);
  ASSERT_EQ(answer.at("embeddings").as_array().size(), 2u);
  const json::value as_openai = ask("/v1/embeddings", R"({"input":["ab","x"]})");
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(answer.at("embeddings").at(i), as_openai.at("data").at(i).at("embedding"));
  }
  EXPECT_EQ(ask("/api/embed", R"({"input":"ab","dimensions":3})")
                .at("embeddings")
                .at(0)
                .as_array()
                .size(),
            3u);
  const ClientResponse bad = post("/api/embed", R"({"input":"a","truncate":1})");
  EXPECT_EQ(bad.status, 400);
  EXPECT_EQ(parse(bad.body).at("error").as_string(),
            "truncate: expected true or false, got the number 1");
}

TEST_F(PoolingTest, CohereEmbedAndTokenVectors) {
  start({.embedding_size = 6});
  const json::value answer =
      ask("/v2/embed", R"({"texts":["a","bc"],"input_type":"search_query"})");
  EXPECT_EQ(answer.at("embeddings").at("float").as_array().size(), 2u);
  EXPECT_EQ(answer.at("response_type").as_string(), "embeddings_by_type");
  EXPECT_EQ(answer.at("meta").at("billed_units").at("input_tokens").as_int64(), 3);
  const json::value tokens = ask("/pooling", R"({"input":"abc","task":"token_embed"})");
  EXPECT_EQ(tokens.at("data").at(0).at("data").as_array().size(), 3u);
  EXPECT_EQ(post("/classify", R"({"input":"abc"})").status, 400);
}

// A task selects an adapter, and a text that goes before each input.
TEST_F(PoolingTest, TasksOfEmbeddings) {
  start({.embedding_size = 6}, {}, false,
        {{"retrieval.query", "/a", "find "}, {"separation", "/b", ""}, {"sql", "/c"}});
  const auto vector = [&](std::string_view path, std::string_view body) {
    const json::value answer = ask(path, body);
    return path == "/v2/embed" ? answer.at("embeddings").at("float").at(0)
                               : answer.at("data").at(0).at("embedding");
  };
  const auto asked = [&](std::string_view body) { return vector("/v1/embeddings", body); };
  const json::value plain = asked(R"({"input":"find ab"})");
  const json::value query = asked(R"({"input":"ab","task":"retrieval.query"})");
  EXPECT_NE(query, plain) << "the adapter makes a difference";
  EXPECT_NE(query, asked(R"({"input":"ab","task":"separation"})"));
  EXPECT_EQ(query, asked(R"({"input":"ab","model":"retrieval.query"})"));
  EXPECT_EQ(ask("/v1/embeddings", R"({"input":"ab","task":"retrieval.query"})")
                .at("usage")
                .at("prompt_tokens")
                .as_int64(),
            7);
  EXPECT_EQ(query, vector("/v2/embed", R"({"texts":["ab"],"task":"retrieval.query"})"));
  EXPECT_EQ(query, vector("/v2/embed", R"({"texts":["ab"],"input_type":"search_query"})"));
  EXPECT_EQ(vector("/v2/embed", R"({"texts":["find ab"],"input_type":"search_document"})"), plain)
      << "the model has no such task";
  const ClientResponse other = post("/v1/embeddings", R"({"input":"a","task":"other"})");
  EXPECT_EQ(other.status, 400);
  EXPECT_EQ(error_param(other), "task");
  EXPECT_NE(error_message(other).find("expected one of retrieval.query, separation, got 'other'"),
            std::string::npos)
      << error_message(other);
  EXPECT_EQ(post("/v1/embeddings", R"({"input":"a","task":3})").status, 400);
  EXPECT_EQ(post("/v1/embeddings", R"({"input":"a","task":"separation","model":"retrieval.query"})")
                .status,
            400);
}

// The prompt before texts is the one that the request names, the one for Cohere's input_type, or
// the default.
TEST_F(PoolingTest, PromptsStandBeforeTexts) {
  texts = {.prompts = {{"query", "find "}, {"passage", "this is "}, {"plain", ""}},
           .default_prompt = "passage"};
  start({.embedding_size = 6});
  const auto vector = [&](std::string_view path, std::string_view body) {
    const json::value answer = ask(path, body);
    return path == "/v2/embed" ? answer.at("embeddings").at("float").at(0)
                               : answer.at("data").at(0).at("embedding");
  };
  const auto plain = [&](const std::string& text) {
    return vector("/v1/embeddings", R"({"prompt_name":"plain","input":")" + text + R"("})");
  };
  EXPECT_EQ(vector("/v1/embeddings", R"({"input":"ab"})"), plain("this is ab"));
  EXPECT_EQ(vector("/v1/embeddings", R"({"input":"ab","task":"query"})"), plain("find ab"));
  EXPECT_EQ(vector("/v2/embed", R"({"texts":["ab"],"input_type":"search_query"})"),
            plain("find ab"));
  EXPECT_EQ(vector("/v2/embed", R"({"texts":["ab"],"input_type":"search_document"})"),
            plain("this is ab"));
  EXPECT_EQ(vector("/v2/embed", R"({"texts":["ab"],"input_type":"plain"})"), plain("ab"));
  const json::value scores = ask("/score", R"({"text_1":"ab","text_2":"cd"})");
  const auto row = [](const json::value& v) { return json::value_to<std::vector<float>>(v); };
  EXPECT_NEAR(scores.at("data").at(0).at("score").to_number<double>(),
              cosine_similarity(row(plain("find ab")), row(plain("this is cd"))), 1e-5);
  const ClientResponse other = post("/v1/embeddings", R"({"input":"a","prompt_name":"other"})");
  EXPECT_EQ(other.status, 400);
  EXPECT_NE(error_message(other).find("expected one of query, passage, plain, got 'other'"),
            std::string::npos)
      << error_message(other);
}

// A reranker that is asked in a chat reads a pair as its chat template writes it.
TEST_F(PoolingTest, PairsAreWrittenByTheTemplate) {
  pairs_are_chats = true;
  start({.num_labels = 1});
  const json::value scores = ask("/score", R"({"text_1":"ab","text_2":"cd"})");
  const auto score_of = [](const json::value& answer) {
    return answer.at("data").at(0).at("score");
  };
  const json::value raw = ask("/classify", R"({"input":"query: ab\ndocument: cd\n"})");
  EXPECT_NEAR(score_of(scores).to_number<double>(),
              raw.at("data").at(0).at("probs").at(0).to_number<double>(), 1e-6);
  const json::value told = ask("/score", R"({"text_1":"ab","text_2":"cd","instruction":"judge"})");
  EXPECT_NE(score_of(told), score_of(scores));
  const json::value cut = ask("/score", R"({"text_1":"ab","text_2":")" + std::string(99, 'c') +
                                            R"(","truncate_prompt_tokens":-1})");
  EXPECT_EQ(cut.at("usage").at("prompt_tokens").as_int64(), 64);
  EXPECT_EQ(post("/score", R"({"text_1":"ab","text_2":"cd","instruction":3})").status, 400);
  server.reset();
  pairs_are_chats = false;
  start({.num_labels = 1});
  EXPECT_EQ(post("/score", R"({"text_1":"a","text_2":"b","instruction":"judge"})").status, 501);
}

TEST_F(PoolingTest, ModelsWithoutTasksRefuseThem) {
  start({.embedding_size = 6});
  const ClientResponse response = post("/v1/embeddings", R"({"input":"a","task":"separation"})");
  EXPECT_EQ(response.status, 400);
  EXPECT_NE(error_message(response).find("the model has no tasks"), std::string::npos);
}

TEST_F(PoolingTest, RanksByEmbeddingsAreCosines) {
  start({.embedding_size = 6});
  const json::value scores = ask("/score", R"({"text_1":"cat","text_2":["dog","cat","cow"]})");
  EXPECT_NEAR(scores.at("data").at(1).at("score").to_number<double>(), 1.0, 1e-6);
  const json::value ranks =
      ask("/v1/rerank", R"({"query":"cat","documents":["dog",{"text":"cat"}],"top_n":1})");
  ASSERT_EQ(ranks.at("results").as_array().size(), 1u);
  EXPECT_EQ(ranks.at("results").at(0).at("index").as_int64(), 1);
  EXPECT_EQ(ranks.at("results").at(0).at("document").at("text").as_string(), "cat");
  EXPECT_EQ(post("/score", R"({"text_1":["a","b"],"text_2":["a","b","c"]})").status, 400);
  EXPECT_EQ(post("/rerank", R"({"query":"cat"})").status, 400);
}

TEST_F(PoolingTest, ACrossEncoderScoresPairs) {
  start({.num_labels = 1});
  const json::value alone = ask("/score", R"({"text_1":"cat","text_2":"dog"})");
  const json::value both =
      ask("/v2/rerank", R"({"query":"cat","documents":["cow","dog"],"return_documents":false})");
  for (const json::value& result : both.at("results").as_array()) {
    EXPECT_FALSE(result.as_object().contains("document"));
    if (result.at("index").as_int64() == 1) {
      EXPECT_EQ(result.at("relevance_score"), alone.at("data").at(0).at("score"));
    }
  }
  EXPECT_GE(both.at("results").at(0).at("relevance_score").to_number<double>(),
            both.at("results").at(1).at("relevance_score").to_number<double>());
  EXPECT_EQ(post("/v1/embeddings", R"({"input":"abc"})").status, 400);
}

TEST_F(PoolingTest, ClassesHaveTheModelsNames) {
  start({.num_labels = 3}, {"bad", "fair", "good"});
  const json::value answer = ask("/classify", R"({"input":["abc","d"]})");
  const json::value& first = answer.at("data").at(0);
  EXPECT_EQ(first.at("num_classes").as_int64(), 3);
  EXPECT_EQ(first.at("probs").as_array().size(), 3u);
  EXPECT_TRUE(first.at("label").as_string() == "bad" || first.at("label").as_string() == "fair" ||
              first.at("label").as_string() == "good");
  EXPECT_EQ(post("/score", R"({"text_1":"a","text_2":"b"})").status, 400);
}

TEST_F(PoolingTest, RoutesThatTheModelCannotServeSaySo) {
  start({.embedding_size = 6});
  const ClientResponse chat =
      post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"hi"}]})");
  EXPECT_EQ(chat.status, 404);
  EXPECT_NE(error_message(chat).find("/v1/embeddings"), std::string::npos);
  server.reset();
  start({}, {}, true);
  const ClientResponse embed = post("/v1/embeddings", R"({"input":"abc"})");
  EXPECT_EQ(embed.status, 404);
  EXPECT_NE(error_message(embed).find("/v1/chat/completions"), std::string::npos);
}

TEST(CosineSimilarity, OfRows) {
  const std::vector<float> a = {1, 0}, b = {0, 2}, c = {3, 0}, zero = {0, 0};
  EXPECT_EQ(cosine_similarity(a, b), 0.0);
  EXPECT_EQ(cosine_similarity(a, c), 1.0);
  EXPECT_EQ(cosine_similarity(a, zero), 0.0);
}

}  // namespace
}  // namespace quire::server
