// These tests send recordings over HTTP, with a double of the engine.
#include <boost/json/parse.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "media/testing/test_audio.h"
#include "server/speech/speech_model.h"
#include "server/testing/server_fixture.h"

namespace quire::server {
namespace {

constexpr TokenId kEnglish = 240, kGerman = 241, kTime = 250;  // bytes that no text here has
constexpr std::string_view kTranscriptions = "/v1/audio/transcriptions";

SpeechTokens tokens() {
  return {.start = 230,
          .transcribe = 231,
          .translate = 232,
          .previous = 233,
          .no_speech = 234,
          .no_timestamps = 249,
          .end_of_text = 229,
          .first_timestamp = kTime,
          .languages = {{"en", kEnglish}, {"de", kGerman}}};
}

std::string wav(double seconds = 0.9) {
  return test::write_audio(test::tones(8000, 1, seconds), SF_FORMAT_WAV | SF_FORMAT_PCM_16, 8000,
                           1);
}

struct Field {
  std::string name;
  std::string value;
};

std::string form(const std::vector<Field>& fields, const std::string& file) {
  std::string body;
  for (const Field& field : fields)
    body += "--X\r\nContent-Disposition: form-data; name=\"" + field.name + "\"\r\n\r\n" +
            field.value + "\r\n";
  if (!file.empty())
    body += "--X\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\n" +
            file + "\r\n";
  return body + "--X--\r\n";
}

// The script hears German and says the same text in each window.
std::vector<OutputDelta> script(const GenerationRequest& request) {
  OutputDelta delta;
  if (request.pooling != nullptr) {
    const auto first = static_cast<size_t>(request.pooling->first_aligned_token);
    delta.pooled.num_columns = 1;
    for (size_t i = first; i < request.prompt_token_ids.size(); ++i)
      delta.pooled.values.push_back(static_cast<float>(i - first));
    delta.finish_reason = FinishReason::kLength;
    return {delta};
  }
  const bool listens = request.params.max_tokens == 1;
  if (listens) {
    delta.token_ids = {kGerman};
  } else {
    delta.token_ids = {kTime, ' ', 'h', 'i', kTime + 2, 229};
  }
  for (const TokenId id : delta.token_ids)
    delta.logprobs.push_back({.token_id = id, .logprob = -0.1f});
  delta.finish_reason = FinishReason::kStop;
  return {delta};
}

class SpeechTest : public ServerTest {
 protected:
  void start_hearing(AudioInputOptions options = {}, bool times_words = false) {
    constexpr WindowShape kShape{.num_bands = 8, .num_frames = 100, .num_embeddings = 50};
    SpeechTokens known = tokens();
    known.times_words = times_words;
    speech = std::make_shared<const SpeechModel>(
        SpeechModel{.audio = AudioInput(kShape, options), .tokens = std::move(known)});
    start({.script = script});
  }
  ClientResponse send(const std::vector<Field>& fields, const std::string& file,
                      std::string_view path = kTranscriptions) {
    return post(path, form(fields, file), {"Content-Type: multipart/form-data; boundary=X"});
  }
  void expect_refused(const std::vector<Field>& fields, const std::string& file, int status,
                      const std::string& param, const std::string& part) {
    const ClientResponse r = send(fields, file);
    EXPECT_EQ(r.status, status) << r.body;
    EXPECT_EQ(error_param(r), param) << r.body;
    EXPECT_NE(error_message(r).find(part), std::string::npos) << r.body;
  }
};

TEST_F(SpeechTest, AnswersInEveryFormat) {
  start_hearing();
  ClientResponse r = send({}, wav(1.5));
  ASSERT_EQ(r.status, 200) << r.body;
  const auto body = parse(r.body);
  EXPECT_EQ(body.at("text").as_string(), "hi hi");
  EXPECT_EQ(body.at("usage").at("seconds"), 2);
  EXPECT_EQ(send({{"response_format", "text"}}, wav()).body, "hi\n");
  EXPECT_EQ(send({{"response_format", "srt"}}, wav(1.5)).body,
            "1\n00:00:00,000 --> 00:00:00,040\nhi\n\n2\n00:00:01,000 --> 00:00:01,040\nhi\n\n");
  EXPECT_EQ(send({{"response_format", "vtt"}}, wav()).body,
            "WEBVTT\n\n00:00:00.000 --> 00:00:00.040\nhi\n\n");
  const auto verbose =
      parse(send({{"response_format", "verbose_json"}, {"timestamp_granularities[]", "segment"}},
                 wav(1.5), "/v1/audio/translations")
                .body);
  EXPECT_EQ(verbose.at("task").as_string(), "translate");
  EXPECT_EQ(verbose.at("language").as_string(), "de");
  EXPECT_NEAR(verbose.at("duration").as_double(), 1.5, 0.01);
  ASSERT_EQ(verbose.at("segments").as_array().size(), 2u);
  const auto& second = verbose.at("segments").at(1);
  EXPECT_EQ(second.at("id"), 1);
  EXPECT_EQ(second.at("text").as_string(), " hi");
  EXPECT_NEAR(second.at("start").as_double(), 1.0, 1e-9);
  EXPECT_EQ(second.at("seek"), 100);
}

TEST_F(SpeechTest, ListsWords) {
  start_hearing({}, true);
  const auto body = parse(
      send({{"response_format", "verbose_json"}, {"timestamp_granularities[]", "word"}}, wav(1.5))
          .body);
  EXPECT_FALSE(body.as_object().contains("segments"));
  const auto& words = body.at("words").as_array();
  ASSERT_EQ(words.size(), 2u);
  EXPECT_EQ(words[1].at("word").as_string(), "hi");
  EXPECT_NEAR(words[1].at("start").as_double(), 1.0, 1e-9);
  EXPECT_NEAR(words[1].at("end").as_double(), 1.06, 1e-9);
  const auto both = parse(send({{"response_format", "verbose_json"},
                                {"timestamp_granularities[]", "word"},
                                {"timestamp_granularities[]", "segment"}},
                               wav(1.5), "/v1/audio/translations")
                              .body);
  EXPECT_EQ(both.at("segments").as_array().size(), 2u);
  EXPECT_EQ(both.at("words").as_array().size(), 2u);
}

TEST_F(SpeechTest, StreamsAreTheFoldOfTheAnswer) {
  start_hearing();
  const ClientResponse r = send({{"stream", "true"}}, wav(2.5));
  ASSERT_EQ(r.status, 200) << r.body;
  std::string text, whole, last;
  for (const std::string& event : events_of(r.body)) {
    last = event;
    if (event == "[DONE]") break;
    const auto one = parse(event);
    if (one.at("type") == "transcript.text.delta") text += one.at("delta").as_string();
    if (one.at("type") == "transcript.text.done") whole = one.at("text").as_string();
  }
  EXPECT_EQ(last, "[DONE]");
  EXPECT_EQ(text, "hi hi hi");
  EXPECT_EQ(whole, text);
}

TEST_F(SpeechTest, AsksWhatTheFormSays) {
  start_hearing();
  send({{"language", "EN"}, {"prompt", "abc"}, {"temperature", "0.5"}, {"seed", "7"}}, wav());
  const auto requests = engine->requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[1].prompt_token_ids,
            (std::vector<TokenId>{233, ' ', 'a', 'b', 'c', 230, kEnglish, 231}));
  EXPECT_FLOAT_EQ(requests[1].params.temperature, 0.5f);
  EXPECT_EQ(requests[1].params.seed, 7u);
  ASSERT_EQ(requests[1].media.size(), 1u);
  EXPECT_TRUE(requests[1].media[0].is_source());
}

TEST_F(SpeechTest, WrongFormsAreRefused) {
  start_hearing({.limits = {.max_bytes = 60'000, .max_seconds = 3.0}});
  expect_refused({}, "", 400, "file", "a recording");
  expect_refused({}, "hello", 400, "file", "WAV, FLAC, Ogg or MP3");
  expect_refused({}, wav(3.5), 413, "file", "seconds");
  expect_refused({}, wav(5.0), 413, "file", "bytes");
  expect_refused({{"model", "other"}}, wav(), 404, "model", "does not exist");
  expect_refused({{"language", "tlh"}}, wav(), 400, "language", "en, de");
  expect_refused({{"response_format", "xml"}}, wav(), 400, "response_format", "verbose_json");
  expect_refused({{"temperature", "1.5"}}, wav(), 400, "temperature", "[0, 1]");
  expect_refused({{"temperature", "nan"}}, wav(), 400, "temperature", "[0, 1]");
  expect_refused({{"temperature", ""}}, wav(), 400, "temperature", "[0, 1]");
  expect_refused({{"stream", "maybe"}}, wav(), 400, "stream", "true or false");
  expect_refused({{"stream", "true"}, {"response_format", "srt"}}, wav(), 400, "stream", "text");
  expect_refused({{"timestamp_granularities[]", "segment"}}, wav(), 400, "timestamp_granularities",
                 "verbose_json");
  expect_refused({{"timestamp_granularities[]", "word"}, {"response_format", "verbose_json"}},
                 wav(), 400, "timestamp_granularities", "alignment_heads");
  expect_refused({{"timestamp_granularities[]", "line"}, {"response_format", "verbose_json"}},
                 wav(), 400, "timestamp_granularities", "segment or word");
  expect_refused({{"prompt", "\xff\xfe"}}, wav(), 400, "prompt", "UTF-8");
  expect_refused({{"priority", "3"}}, wav(), 400, "priority", "0");
  std::vector<float> bad = test::tones(8000, 1, 0.5);
  bad[100] = std::numeric_limits<float>::quiet_NaN();
  expect_refused({}, test::write_audio(bad, SF_FORMAT_WAV | SF_FORMAT_FLOAT, 8000, 1), 400, "file",
                 "[-1, 1]");
  EXPECT_EQ(post(kTranscriptions, "{}").status, 400);
  EXPECT_EQ(engine->requests().size(), 0u);
}

TEST_F(SpeechTest, UnknownFieldsGiveAWarning) {
  start_hearing();
  ClientResponse r = send({{"hotwords", "x"}}, wav());
  EXPECT_EQ(r.status, 200);
  EXPECT_NE(r.headers["x-quire-warning"].find("hotwords"), std::string::npos);
}

TEST_F(SpeechTest, ModelsOfTextHearNothing) {
  start_saying("hi");
  const ClientResponse r = send({}, wav());
  EXPECT_EQ(r.status, 404);
  EXPECT_NE(error_message(r).find("hears nothing"), std::string::npos);
}

TEST_F(SpeechTest, FullServersSaySo) {
  start_hearing({.max_held_bytes = 100});
  expect_refused({}, wav(), 429, "file", "held at once");
}

}  // namespace
}  // namespace quire::server
