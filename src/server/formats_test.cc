// These tests are about the parts without sockets: HTTP reader, SSE reader, fold and chunk builder.
// Their input is cut at every place.
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <random>

#include "base/utf8.h"
#include "server/http/http_request_reader.h"
#include "server/http/sse.h"
#include "server/json/json_body.h"
#include "server/openai/chunk_builder.h"
#include "server/openai/logprob_format.h"
#include "server/openai/request_fields.h"
#include "server/openai/response_fold.h"
#include "server/testing/scripted_engine.h"
#include "tests/support/test_data.h"

namespace quire::server {
namespace {

namespace json = boost::json;
using State = HttpRequestReader::State;

std::vector<HttpRequest> read_all(const std::vector<std::string>& pieces) {
  HttpRequestReader reader(ServerLimits{});
  std::vector<HttpRequest> requests;
  for (const std::string& piece : pieces) {
    reader.append(piece);
    while (true) {
      const State state = reader.advance();
      if (state == State::kNeedMore || state == State::kError) break;
      if (state == State::kComplete) requests.push_back(reader.take());
    }
  }
  return requests;
}

TEST(HttpRequestReader, EverySplitGivesTheSameRequests) {
  const std::string text =
      "POST /a%20b?x=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"
      "\r\nGET /c HTTP/1.1\r\nHost: h\r\n\r\n"
      "POST /d HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: "
      "chunked\r\n\r\n3\r\nabc\r\n2;ext=1\r\nde\r\n0\r\n\r\n";
  for (size_t i = 0; i <= text.size(); ++i) {
    for (size_t j = i; j <= text.size(); j += 7) {
      const auto requests = read_all({text.substr(0, i), text.substr(i, j - i), text.substr(j)});
      ASSERT_EQ(requests.size(), 3u) << i << " " << j;
      EXPECT_EQ(requests[0].path, "/a b");
      EXPECT_EQ(requests[0].query, "x=1");
      EXPECT_EQ(requests[0].body, "hello");
      EXPECT_EQ(requests[1].path, "/c");
      EXPECT_EQ(requests[2].body, "abcde");
    }
  }
}

TEST(HttpRequestReader, EmptyChunkedBodyInAnyPieces) {
  const std::string text =
      "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
  for (size_t i = 0; i <= text.size(); ++i) {
    for (size_t j = i; j <= text.size(); ++j) {
      const auto requests = read_all({text.substr(0, i), text.substr(i, j - i), text.substr(j)});
      ASSERT_EQ(requests.size(), 1u) << i << " " << j;
      EXPECT_EQ(requests[0].body, "");
    }
  }
}

// Returns the status of the error for `text` that is fed in pieces; 0: there is none.
int error_of(std::string_view text, size_t piece, uint64_t& most_held) {
  HttpRequestReader reader(ServerLimits{});
  for (size_t at = 0; at < text.size(); at += piece) {
    reader.append(text.substr(at, piece));
    while (true) {
      const State state = reader.advance();
      most_held = std::max(most_held, reader.held_bytes());
      if (state == State::kError) return reader.error_status();
      if (state == State::kNeedMore) break;
      if (state == State::kComplete) reader.take();
    }
  }
  return 0;
}

TEST(HttpRequestReader, ExtensionsAndTrailersAreBoundedInAll) {
  const std::string head = "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string many(20'000, 'x');
  std::string small_ones;
  for (int i = 0; i < 200; ++i) small_ones += "1;e=" + many.substr(0, 100) + "\r\nx\r\n";
  std::string plain;
  for (int i = 0; i < 20'000; ++i) plain += "1\r\nx\r\n";
  std::string fields;
  for (int i = 0; i < 2'000; ++i) fields += "T: abcdefgh\r\n";
  const std::pair<std::string, int> cases[] = {{"1;e=" + many + "\r\nx\r\n0\r\n\r\n", 431},
                                               {"1;e=" + many, 431},  // it has no end
                                               {small_ones, 431},
                                               {"0;e=" + many + "\r\n\r\n", 431},
                                               {"0\r\nT: " + many, 431},
                                               {"0\r\n" + fields + "\r\n", 431},
                                               {plain + "0\r\n\r\n", 0},
                                               {"1;e=1\r\nx\r\n0\r\nT: 1\r\n\r\n", 0}};
  for (const auto& [body, status] : cases) {
    for (const size_t piece : {size_t{1} << 20, size_t{8192}, size_t{100}}) {
      uint64_t most_held = 0;
      EXPECT_EQ(error_of(head + body, piece, most_held), status)
          << body.substr(0, 20) << " in pieces of " << piece;
      if (piece < 10'000) {
        EXPECT_LT(most_held, 40'000u);
      }
    }
  }
}

TEST(HttpTypes, DatesAreThoseOfTheStandard) {
  EXPECT_EQ(http_date(784111777), "Sun, 06 Nov 1994 08:49:37 GMT");  // the example of RFC 9110
}

// Returns a JSON text, which is mostly valid, with every kind of value.
std::string random_json(std::mt19937& random, int depth) {
  const auto repeat = [&](std::string_view open, std::string_view close, auto&& item) {
    std::string out(open);
    const size_t count = random() % 12;
    for (size_t i = 0; i < count; ++i) out += (i > 0 ? "," : "") + item();
    return out + std::string(close);
  };
  switch (random() % (depth > 0 ? 6 : 4)) {
    case 0:
      return "1";
    case 1:
      return "null";
    case 2:
      return "\"" + std::string(random() % 60, 'a') + "\\\"\"";
    case 3:
      return "-1.5e3";
    case 4:
      return repeat("[", "]", [&] { return random_json(random, depth - 1); });
    default:
      return repeat("{", "}", [&] {
        return "\"" + std::to_string(random()) + "\":" + random_json(random, depth - 1);
      });
  }
}

TEST(JsonBody, TheBoundIsNoLessThanWhatTheValueTakes) {
  std::mt19937 random(7);
  for (int i = 0; i < 500; ++i) {
    const std::string text = random_json(random, 4);
    const Result<json::value> value = parse_json(text, 64);
    ASSERT_TRUE(value.ok()) << text;
    ASSERT_LE(memory_bytes(*value), parsed_bytes_bound(text)) << text;
  }
  // For what people send, the bound is close to the size of the text: one long text, and a list of
  // ids.
  EXPECT_LT(parsed_bytes_bound("\"" + std::string(1'000'000, 'a') + "\""), 1'100'000u);
  std::string ids = "[1";
  for (int i = 0; i < 1'000'000; ++i) ids += ",1";
  EXPECT_LT(parsed_bytes_bound(ids), 64u << 20);
}

TEST(HttpTypes, ResponseHeadCannotBeSplit) {
  HttpResponse response{200, "text/plain", "", {{"X-A", "a\r\nX-B: b"}}};
  EXPECT_EQ(
      response_head(response, {11, true, 3}),
      "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-A: a  X-B: b\r\nContent-Length: 3\r\n\r\n");
}

std::vector<std::string> read_sse(const std::vector<std::string_view>& pieces) {
  SseReader reader;
  std::vector<std::string> events;
  for (const std::string_view piece : pieces) {
    EXPECT_TRUE(reader.feed(piece));
    while (auto event = reader.next()) events.push_back(*event);
  }
  return events;
}

TEST(SseReader, EverySplitGivesTheSameEvents) {
  const std::string text =
      ": comment\n\ndata: one\n\nevent: x\ndata:two\r\ndata: lines\r\n\r\ndata\n\nid: 3\rdata: "
      "[DONE]\r\r";
  const std::vector<std::string> expected = {"one", "two\nlines", "", "[DONE]"};
  const std::string_view view = text;
  for (size_t i = 0; i <= view.size(); ++i) {
    for (size_t j = i; j <= view.size(); ++j) {
      ASSERT_EQ(read_sse({view.substr(0, i), view.substr(i, j - i), view.substr(j)}), expected)
          << i << " " << j;
    }
  }
}

TEST(SseReader, LongEventsAreRefused) {
  SseReader reader(16);
  EXPECT_TRUE(reader.feed("data: 123456"));
  EXPECT_FALSE(reader.feed("7890123456"));
  EXPECT_FALSE(reader.feed("\n\n"));
}

json::object fold_sse(std::string_view text, size_t piece_size, int64_t& chunks) {
  SseReader reader;
  ResponseFold fold(Endpoint::kChat);
  chunks = 0;
  for (size_t at = 0; at < text.size(); at += piece_size) {
    EXPECT_TRUE(reader.feed(text.substr(at, piece_size)));
    while (auto event = reader.next()) {
      if (*event == "[DONE]") continue;
      ++chunks;
      EXPECT_TRUE(fold.add(json::parse(*event).as_object()).ok());
    }
  }
  return fold.finish();
}

int64_t count_logprobs(const json::value& logprobs) {
  int64_t count = 0;
  if (!logprobs.is_object()) return 0;
  for (const auto& [key, value] : logprobs.as_object()) {
    if (value.is_array()) count += static_cast<int64_t>(value.get_array().size());
  }
  return count;
}

// Absent content and empty content give the same text in the recordings.
std::string text_of(const json::value& value) {
  return value.is_null() ? "" : std::string(value.as_string());
}

TEST(ResponseFold, RecordedOpenAiStreams) {
  QUIRE_REQUIRE_SHARED(dir, "api/openai_sse");
  const json::value expected = json::parse(test::read_file(dir / "folded.json"));
  ASSERT_GE(expected.as_array().size(), 12u);
  for (const json::value& file : expected.as_array()) {
    const std::string name(file.at("file").as_string());
    SCOPED_TRACE(name);
    const std::string text = test::read_file(dir / name);
    for (const size_t piece : {size_t{1}, size_t{7}, text.size()}) {
      int64_t chunks = 0;
      const json::object folded = fold_sse(text, piece, chunks);
      EXPECT_EQ(chunks, file.at("chunks").as_int64());
      for (const auto& [key, value] : file.at("usage").as_object()) {
        EXPECT_EQ(json::serialize(folded.at("usage").at(key)), json::serialize(value))
            << std::string_view(key);
      }
      ASSERT_EQ(folded.at("choices").as_array().size(), file.at("choices").as_array().size());
      for (size_t i = 0; i < file.at("choices").as_array().size(); ++i) {
        const json::value& want = file.at("choices").at(i);
        const json::value& got = folded.at("choices").at(i);
        EXPECT_EQ(got.at("index"), want.at("index"));
        EXPECT_EQ(text_of(got.at("message").at("content")), text_of(want.at("content")));
        EXPECT_EQ(got.at("message").at("refusal"), want.at("refusal"));
        EXPECT_EQ(got.at("finish_reason"), want.at("finish_reason"));
        EXPECT_EQ(count_logprobs(got.at("logprobs")), want.at("logprob_tokens").as_int64());
        const json::array& calls = want.at("tool_calls").as_array();
        if (calls.empty()) continue;
        const json::array& mine = got.at("message").at("tool_calls").as_array();
        ASSERT_EQ(mine.size(), calls.size());
        for (size_t k = 0; k < calls.size(); ++k) {
          EXPECT_EQ(mine[k].at("id"), calls[k].at("id"));
          EXPECT_EQ(mine[k].at("function").at("name"), calls[k].at("name"));
          EXPECT_EQ(mine[k].at("function").at("arguments"), calls[k].at("arguments"));
        }
      }
    }
  }
}

TEST(ResponseFold, RefusesWhatIsNoChunk) {
  for (const char* text :
       {"{}", R"({"choices":1})", R"({"choices":[1]})", R"({"choices":[{}]})",
        R"({"choices":[{"index":-1}]})", R"({"choices":[{"index":99999999999}]})",
        R"({"error":{"message":"m"}})", R"({"error":1})"}) {
    ResponseFold fold(Endpoint::kChat);
    EXPECT_FALSE(fold.add(json::parse(text).as_object()).ok()) << text;
  }
}

ResponseShape shape_of(Endpoint endpoint, bool stream) {
  ResponseShape shape;
  shape.endpoint = endpoint;
  shape.id = "id";
  shape.model = "m";
  shape.n = 2;
  shape.stream = stream;
  shape.include_usage = stream;
  shape.num_logprobs = 2;
  shape.return_token_ids = true;
  shape.echo = endpoint == Endpoint::kCompletions;
  shape.prompts = {{{'p', 'q'}, "pq"}};
  shape.codec = std::make_shared<ByteCodec>();
  return shape;
}

// Returns the whole text of both choices as deltas of random lengths, which alternate randomly
// between the choices.
std::vector<OutputDelta> random_cut(std::mt19937& random, const std::string& text) {
  SamplingParams params;
  params.logprobs = 2;
  std::vector<OutputDelta> deltas;
  std::array<size_t, 2> at{};
  while (at[0] < text.size() || at[1] < text.size()) {
    const int32_t choice = at[0] == text.size()   ? 1
                           : at[1] == text.size() ? 0
                                                  : static_cast<int32_t>(random() % 2);
    size_t& from = at[static_cast<size_t>(choice)];
    const size_t length = std::min(text.size() - from, static_cast<size_t>(random() % 5));
    deltas.push_back(text_delta(choice, text.substr(from, length), params));
    from += length;
    if (from == text.size()) deltas.back().finish_reason = FinishReason::kLength;
  }
  return deltas;
}

std::string fold_of(ResponseShape shape, std::vector<OutputDelta> deltas) {
  const Endpoint endpoint = shape.endpoint;
  ChunkBuilder builder(std::move(shape));
  Chunks chunks;
  for (OutputDelta& delta : deltas) builder.add(0, std::move(delta), chunks);
  builder.finish(chunks);
  ResponseFold fold(endpoint);
  for (json::object& chunk : chunks) EXPECT_TRUE(fold.add(std::move(chunk)).ok());
  return json::serialize(fold.finish());
}

TEST(ChunkBuilder, AnyCutOfTheDeltasFoldsAlike) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::string text = "The quick brown fox, \xC3\xA4\xE2\x82\xAC and so on.";
  for (const Endpoint endpoint : {Endpoint::kCompletions, Endpoint::kChat}) {
    std::mt19937 fixed(1);
    const std::string expected = fold_of(shape_of(endpoint, false), random_cut(fixed, text));
    for (int i = 0; i < 200; ++i) {
      ResponseShape shape = shape_of(endpoint, random() % 2 == 0);
      shape.stream_interval = 1 + static_cast<int32_t>(random() % 6);
      ASSERT_EQ(fold_of(shape, random_cut(random, text)), expected) << "cut " << i;
    }
  }
}

TEST(LogprobFormat, TokensAreValidUtf8AndBytesAreRaw) {
  EXPECT_EQ(to_valid_utf8("a\xC3\xA4\xFF\xE2\x82z"), "a\xC3\xA4\xEF\xBF\xBD\xEF\xBF\xBDz");
  EXPECT_EQ(to_valid_utf8("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");  // a surrogate
  const ByteCodec codec;
  const json::object entry =
      chat_logprob({0xC3, -0.25f, 1, {{'a', -1.0f}, {'b', -2.0f}}}, 1, {codec});
  EXPECT_EQ(json::serialize(entry.at("bytes")), "[195]");
  EXPECT_EQ(entry.at("token").as_string(), "\xEF\xBF\xBD");
  EXPECT_EQ(entry.at("top_logprobs").as_array().size(), 1u);
  EXPECT_EQ(chat_logprob({1, -INFINITY, 1, {}}, 0, {codec}).at("logprob").as_double(), -9999.0);
}

TEST(FieldTable, EveryBoundHolds) {
  // For each plain number, its bounds are accepted, and the next value beyond them is not.
  for (const Field& field : field_table()) {
    const bool integer = std::holds_alternative<IntMember>(field.target);
    if (!integer && !std::holds_alternative<NumberMember>(field.target)) continue;
    const auto endpoint = field.endpoints == 1 ? Endpoint::kCompletions : Endpoint::kChat;
    const auto error_with = [&](json::value x) {
      json::object body{{"messages", json::array{json::object{{"role", "user"}}}}, {"prompt", "a"}};
      if (endpoint == Endpoint::kChat) body.erase("prompt");
      if (endpoint == Endpoint::kCompletions) body.erase("messages");
      body["logprobs"] = endpoint == Endpoint::kChat ? json::value(true) : json::value(nullptr);
      body["echo"] = true;
      body[field.name] = std::move(x);
      auto parsed = parse_fields(std::move(body), endpoint, true);
      return parsed.ok() ? std::string() : parsed.error().param.value_or("?");
    };
    const auto number = [&](double x) {
      return integer ? json::value(static_cast<int64_t>(x)) : json::value(x);
    };
    const double step = integer ? 1 : 1e-6;
    SCOPED_TRACE(std::string(field.name));
    if (field.min) {
      EXPECT_EQ(error_with(number(*field.min)), field.exclusive_min ? field.name : "");
      EXPECT_EQ(error_with(number(*field.min - step)), field.name);
    }
    if (field.max) {
      EXPECT_EQ(error_with(number(*field.max)), "");
      EXPECT_EQ(error_with(number(*field.max + step)), field.name);
    }
    EXPECT_EQ(error_with("text"), field.name);
    EXPECT_EQ(error_with(json::array{}), field.name);
    EXPECT_EQ(error_with(nullptr), "");
  }
}

}  // namespace
}  // namespace quire::server
