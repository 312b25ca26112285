// Ollama's API over a scripted engine and a real socket.
#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>

#include "server/testing/server_fixture.h"

namespace quire::server {
namespace {

namespace json = boost::json;

constexpr std::string_view kReply =
    "<think>Hm.</think>Look.<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": "
    "1}}\n</tool_call><tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 2}}\n</tool_call>";
constexpr std::string_view kTools =
    R"(,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}])";

ServerOptions hermes() {
  ServerOptions options;
  options.reply_format = {find_dialect("hermes"), find_reasoning_style("qwen3")};
  return options;
}

std::string chat_with(std::string_view members) {
  return fmt::format(R"({{"model":"tiny:latest","messages":[{{"role":"user","content":"hi"}}]{}}})",
                     members);
}

std::vector<json::object> lines_of(std::string_view body) {
  std::vector<json::object> lines;
  while (!body.empty()) {
    const size_t end = std::min(body.find('\n'), body.size());
    lines.push_back(parse(body.substr(0, end)).as_object());
    body.remove_prefix(std::min(end + 1, body.size()));
  }
  return lines;
}

// Removes the members that differ between any two answers.
json::object without_times(json::object line) {
  for (const char* name :
       {"created_at", "total_duration", "prompt_eval_duration", "eval_duration"}) {
    line.erase(name);
  }
  return line;
}

std::string prompt_of(const GenerationRequest& request) {
  return ByteCodec().decode(request.prompt_token_ids, false);
}

TEST_F(ServerTest, OllamaStreamIsExact) {
  start_saying("hi");
  const ClientResponse r = post("/api/chat", chat_with(""));
  ASSERT_EQ(r.status, 200) << r.body;
  EXPECT_EQ(r.headers.at("content-type"), "application/x-ndjson");
  const std::vector<json::object> lines = lines_of(r.body);
  ASSERT_EQ(lines.size(), 3u) << r.body;
  EXPECT_EQ(without_times(lines[0]),
            parse(R"({"model":"tiny","message":{"role":"assistant","content":"h"},"done":false})"));
  EXPECT_EQ(without_times(lines[1]),
            parse(R"({"model":"tiny","message":{"role":"assistant","content":"i"},"done":false})"));
  EXPECT_EQ(
      without_times(lines[2]),
      parse(
          R"({"model":"tiny","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","load_duration":0,"prompt_eval_count":19,"eval_count":2})"));
  EXPECT_EQ(lines[2].at("created_at").as_string().size(), 20u);
}

TEST_F(ServerTest, OllamaAnswerIsTheStreamsSum) {
  start_saying(std::string(kReply), hermes());
  const std::string fields(kTools);
  const json::object whole =
      parse(post("/api/chat", chat_with(fields + R"(,"stream":false)")).body).as_object();
  const json::object& message = whole.at("message").as_object();
  EXPECT_EQ(message.at("content").as_string(), "Look.");
  EXPECT_EQ(message.at("thinking").as_string(), "Hm.");
  EXPECT_EQ(json::serialize(message.at("tool_calls").at(0).at("function")),
            R"({"index":0,"name":"f","arguments":{"a":1}})");
  std::string content, thinking;
  json::array calls;
  for (const json::object& line : lines_of(post("/api/chat", chat_with(fields)).body)) {
    const json::object& part = line.at("message").as_object();
    content += part.at("content").as_string();
    if (part.contains("thinking")) thinking += part.at("thinking").as_string();
    if (part.contains("tool_calls")) {
      for (const json::value& call : part.at("tool_calls").as_array()) {
        calls.push_back(call.at("function"));
      }
    }
  }
  EXPECT_EQ(content, "Look.");
  EXPECT_EQ(thinking, "Hm.");
  EXPECT_EQ(
      json::serialize(calls),
      R"([{"index":0,"name":"f","arguments":{"a":1}},{"index":1,"name":"f","arguments":{"a":2}}])");
}

TEST_F(ServerTest, OllamaRequestsBecomeThoseOfAChat) {
  start_saying("x");
  const ClientResponse r = post("/api/chat", R"({"messages":[{"role":"user","content":"a"},
    {"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]},
    {"role":"tool","content":"r","tool_name":"f"}],"options":{"num_predict":7,"temperature":0.5,"top_k":5,"stop":["a"],
    "seed":3,"repeat_penalty":1.5,"num_ctx":4096},"keep_alive":"5m","stream":false})");
  ASSERT_EQ(r.status, 200) << r.body;
  const GenerationRequest request = engine->requests().at(0);
  EXPECT_EQ(prompt_of(request), "user: a\nassistant: \ntool: r\nassistant:");
  EXPECT_EQ(request.params.max_tokens, 7);
  EXPECT_EQ(request.params.seed, 3u);
  EXPECT_EQ(request.params.repetition_penalty, 1.5f);
  EXPECT_EQ(post("/api/generate", R"({"prompt":"p","system":"s","stream":false})").status, 200);
  EXPECT_EQ(prompt_of(engine->requests().at(1)), "system: s\nuser: p\nassistant:");
  const ClientResponse raw = post("/api/generate", R"({"prompt":"p","raw":true,"stream":false})");
  EXPECT_EQ(parse(raw.body).at("response").as_string(), "x");
  EXPECT_EQ(prompt_of(engine->requests().at(2)), "p");
}

TEST_F(ServerTest, OllamaRefusalsNameTheField) {
  start_saying("x");
  const auto refused = [this](std::string_view path, std::string_view body) {
    const ClientResponse r = post(path, body);
    EXPECT_EQ(r.status, 400) << body << r.body;
    return std::string(parse(r.body).at("error").as_string());
  };
  EXPECT_EQ(refused("/api/chat", "{}"), "messages: expected at least one message");
  EXPECT_EQ(refused("/api/chat", R"({"messages":[{"content":"a"}]})"),
            "messages.0.role: expected a role, got none");
  EXPECT_EQ(refused("/api/chat", chat_with(R"(,"options":{"temperature":3})")),
            "options.temperature: expected a number in [0, 2], got the number 3");
  EXPECT_EQ(refused("/api/chat", chat_with(R"(,"options":{"what":3})")),
            "options.'what': this option is unknown");
  EXPECT_EQ(refused("/api/chat", chat_with(R"(,"format":"xml")")),
            "format: expected \"json\" or a JSON Schema, got a string");
  EXPECT_EQ(refused("/api/generate", R"({"prompt":"a","raw":1})"),
            "raw: expected true or false, got the number 1");
  EXPECT_EQ(refused("/api/generate", R"({"prompt":"a","images":["x"]})"),
            "messages.0.content: expected text parts only, got 'image_url': this model reads no "
            "images");
  EXPECT_EQ(refused("/api/generate", R"({"prompt":"a","raw":true,"images":["x"]})"),
            "images: expected none with raw; the chat template places images");
  EXPECT_EQ(refused("/api/generate", R"({"images":"x","prompt":"a"})"),
            "images: expected a list of images in base64, got a string");
  EXPECT_EQ(refused("/api/chat", R"({"messages":[{"role":"user","images":[1]}]})"),
            "messages.0.images.0: expected an image in base64, got the number 1");
  EXPECT_EQ(post("/api/show", R"({"model":"nope"})").status, 404);
  EXPECT_EQ(post("/api/chat", R"({"model":"nope","messages":[]})").status, 404);
  EXPECT_EQ(refused("/api/chat", chat_with(R"(,"keep_alive":"soon")")),
            "keep_alive: expected seconds, or a text such as \"5m\" or \"1h30m\", got a string");
}

TEST_F(ServerTest, OllamaRequestsThatSayNothingLoadTheModel) {
  start_saying("x");
  const json::value chat = parse(post("/api/chat", R"({"model":"tiny","messages":[]})").body);
  EXPECT_EQ(chat.at("done_reason").as_string(), "load");
  EXPECT_EQ(chat.at("message").at("content").as_string(), "");
  const json::value generated =
      parse(post("/api/generate", R"({"model":"tiny:latest","keep_alive":-1})").body);
  EXPECT_EQ(generated.at("done_reason").as_string(), "load");
  EXPECT_EQ(generated.at("response").as_string(), "");
  EXPECT_TRUE(engine->requests().empty());
}

TEST_F(ServerTest, OllamaTellsOfItsModel) {
  start_saying("x", hermes());
  const json::value tags = parse(get("/api/tags").body);
  EXPECT_EQ(tags.at("models").at(0).at("model").as_string(), "tiny");
  EXPECT_EQ(parse(get("/api/ps").body).at("models").as_array().size(), 1u);
  const json::value shown = parse(post("/api/show", R"({"model":"tiny:latest"})").body);
  EXPECT_EQ(json::serialize(shown.at("capabilities")), R"(["completion","tools","thinking"])");
  EXPECT_EQ(shown.at("model_info").at("quire.context_length").as_int64(), 1024);
  EXPECT_FALSE(parse(get("/api/version").body).at("version").as_string().empty());
}

}  // namespace
}  // namespace quire::server
