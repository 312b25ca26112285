#include "server/speech/transcriber.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "server/speech/transcript_format.h"
#include "server/testing/scripted_engine.h"

namespace quire {
namespace {

using server::ByteCodec;
using Tokens = std::vector<TokenId>;

// Bytes are text; the tokens after them are control tokens.
constexpr TokenId kEnd = 256, kStart = 257, kEnglish = 258, kGerman = 259, kTranslate = 260,
                  kTranscribe = 261, kPrevious = 262, kNoSpeech = 263, kNoTimes = 264, kTime = 265;
// The windows are one second long.
constexpr WindowShape kShape{.num_bands = 8, .num_frames = 100, .num_embeddings = 50};

std::vector<MarkToken> marks() {
  return {{kEnd, "<|endoftext|>", true},        {kStart, "<|startoftranscript|>", true},
          {kEnglish, "<|en|>", true},           {kGerman, "<|de|>", true},
          {kTranslate, "<|translate|>", true},  {kTranscribe, "<|transcribe|>", true},
          {kPrevious, "<|startofprev|>", true}, {kNoSpeech, "<|nospeech|>", true},
          {kNoTimes, "<|notimestamps|>", true}, {kTime, "<|0.00|>", false}};
}

SpeechModel make_model(std::string_view generation = "{}") {
  auto tokens = read_speech_tokens(marks(), generation);
  QUIRE_CHECK(tokens.ok(), "{}", tokens.status().message());
  return {AudioInput(kShape), std::move(*tokens)};
}

HeardRecording silence(double seconds) {
  const auto num_samples = static_cast<size_t>(seconds * kSpeechSampleRate);
  return {.bands = LogMel(8).compute(std::vector<float>(num_samples, 0.0f)),
          .num_samples = static_cast<int64_t>(num_samples)};
}

TokenId at(double seconds) { return kTime + static_cast<TokenId>(std::lround(seconds * 50)); }

Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
Tokens say(std::string_view text) {
  Tokens tokens;
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

SpeechAnswer answer(Tokens tokens, float logprob = -0.1f) {
  SpeechAnswer answer{.token_ids = std::move(tokens)};
  for (const TokenId id : answer.token_ids)
    answer.logprobs.push_back({.token_id = id, .logprob = logprob});
  return answer;
}

SpeechAnswer heard(TokenId language, double no_speech_prob = 0.01) {
  SpeechAnswer first = answer({language});
  first.logprobs[0].top = {{kNoSpeech, static_cast<float>(std::log(no_speech_prob))}};
  return first;
}

class TranscriberTest : public ::testing::Test {
 protected:
  Transcriber start(double seconds, const TranscriptionOptions& options = {}) {
    return {model_, codec_, silence(seconds), options, 448};
  }
  static SpeechQuery ask(Transcriber& transcriber) {
    auto query = transcriber.next();
    QUIRE_CHECK(query.ok() && query->has_value(), "nothing is asked");
    return std::move(**query);
  }
  static bool is_done(Transcriber& transcriber) { return !transcriber.next()->has_value(); }

  const SpeechModel model_ = make_model();
  const ByteCodec codec_;
};

// A codec that knows no text.
class NoCodec final : public TextCodec {
 public:
  Result<std::vector<TokenId>> encode(std::string_view, bool) const override {
    return too_large("the text is too long");
  }
  std::string decode(std::span<const TokenId>, bool) const override { return {}; }
  std::string token_bytes(TokenId) const override { return {}; }
  std::string token_piece(TokenId) const override { return {}; }
  std::vector<MarkToken> mark_tokens() const override { return {}; }
  int32_t vocab_size() const override { return 257; }
};

TEST_F(TranscriberTest, APromptThatCannotBeReadIsAnError) {
  const NoCodec codec;
  Transcriber transcriber(model_, codec, silence(0.9), {.language = "en", .prompt = "a"}, 448);
  ask(transcriber);
  transcriber.take(heard(kEnglish));
  EXPECT_EQ(transcriber.next().status().code(), StatusCode::kTooLarge);
}

TEST_F(TranscriberTest, ListensThenWrites) {
  Transcriber transcriber = start(0.9);
  SpeechQuery query = ask(transcriber);
  EXPECT_EQ(query.prompt, Tokens{kStart});
  EXPECT_EQ(query.params.max_tokens, 1);
  EXPECT_EQ(query.params.allowed_token_ids, (Tokens{kEnglish, kGerman}));
  EXPECT_EQ(query.params.logprob_token_ids, Tokens{kNoSpeech});
  const auto window = query.window;
  transcriber.take(heard(kGerman));
  query = ask(transcriber);
  EXPECT_EQ(query.prompt, (Tokens{kStart, kGerman, kTranscribe}));
  EXPECT_EQ(query.window, window) << "the encoder is not asked twice";
  EXPECT_EQ(query.params.max_tokens, 224);
  EXPECT_TRUE(query.params.transcript_rules->has_timestamps());
  transcriber.take(answer(Tokens{at(0)} + say(" hallo") + Tokens{at(0.8), kEnd}));
  EXPECT_TRUE(is_done(transcriber));
  EXPECT_EQ(transcriber.language(), "de");
  EXPECT_EQ(transcriber.text(), "hallo");
  ASSERT_EQ(transcriber.segments().size(), 1u);
  EXPECT_DOUBLE_EQ(transcriber.segments()[0].start, 0.0);
  EXPECT_DOUBLE_EQ(transcriber.segments()[0].end, 0.8);
  EXPECT_NEAR(transcriber.segments()[0].no_speech_prob, 0.01, 1e-6);
}

TEST_F(TranscriberTest, WindowsFollowTheTimestamps) {
  Transcriber transcriber = start(2.5, {.language = "en"});
  ask(transcriber);
  transcriber.take(heard(kGerman));
  EXPECT_EQ(ask(transcriber).prompt, (Tokens{kStart, kEnglish, kTranscribe}));
  // There are two complete segments, and one that began at 0.7, which is read again.
  transcriber.take(answer(Tokens{at(0)} + say(" a") + Tokens{at(0.3), at(0.4)} + say(" b") +
                          Tokens{at(0.7), at(0.7)} + say(" c") + Tokens{kEnd}));
  SpeechQuery query = ask(transcriber);
  EXPECT_EQ(query.prompt, Tokens{kStart}) << "a new window";
  transcriber.take(heard(kEnglish));
  ask(transcriber);
  // The model ends a single segment, so the window is done.
  transcriber.take(answer(Tokens{at(0)} + say(" c") + Tokens{at(0.5), kEnd}));
  ask(transcriber);
  transcriber.take(heard(kEnglish));
  ask(transcriber);
  transcriber.take(answer(Tokens{at(0.1)} + say(" d")));  // cut short: it lasts until the end
  EXPECT_TRUE(is_done(transcriber));
  ASSERT_EQ(transcriber.segments().size(), 4u);
  const auto expect_segment = [&](size_t i, std::string_view text, double start, double end) {
    const TranscriptSegment& segment = transcriber.segments()[i];
    EXPECT_EQ(segment.text, text);
    EXPECT_NEAR(segment.start, start, 1e-9);
    EXPECT_NEAR(segment.end, end, 1e-9);
  };
  expect_segment(0, " a", 0.0, 0.3);
  expect_segment(1, " b", 0.4, 0.7);
  expect_segment(2, " c", 0.7, 1.2);
  expect_segment(3, " d", 1.8, 2.5);
  EXPECT_EQ(transcriber.text(), "a b c d");
  EXPECT_EQ(transcriber.segments()[3].window_frame, 170);
}

TEST_F(TranscriberTest, WhatIsPoorIsTriedWarmer) {
  Transcriber transcriber = start(0.5, {.language = "en"});
  ask(transcriber);
  transcriber.take(heard(kEnglish));
  const std::string again(300, 'a');
  EXPECT_EQ(ask(transcriber).params.temperature, 0.0f);
  transcriber.take(answer(Tokens{at(0)} + say(again) + Tokens{at(0.4), kEnd}));  // a repetition
  EXPECT_FLOAT_EQ(ask(transcriber).params.temperature, 0.2f);
  transcriber.take(answer(Tokens{at(0)} + say(" maybe") + Tokens{at(0.4), kEnd}, -2.0f));
  EXPECT_FLOAT_EQ(ask(transcriber).params.temperature, 0.4f);
  transcriber.take(answer(Tokens{at(0)} + say(" surely") + Tokens{at(0.4), kEnd}));
  EXPECT_TRUE(is_done(transcriber));
  EXPECT_EQ(transcriber.text(), "surely");
  EXPECT_FLOAT_EQ(transcriber.segments()[0].temperature, 0.4f);
}

TEST_F(TranscriberTest, TheLastAttemptStands) {
  Transcriber transcriber = start(0.5, {.language = "en"});
  ask(transcriber);
  transcriber.take(heard(kEnglish));
  for (int i = 0; i < 6; ++i) {
    ask(transcriber);
    transcriber.take(answer(Tokens{at(0)} + say(" hm") + Tokens{at(0.4), kEnd}, -3.0f));
  }
  EXPECT_TRUE(is_done(transcriber));
  EXPECT_EQ(transcriber.text(), "hm");
}

TEST_F(TranscriberTest, SilenceIsSkipped) {
  Transcriber transcriber = start(1.5, {.language = "en"});
  for (int window = 0; window < 2; ++window) {
    ask(transcriber);
    transcriber.take(heard(kEnglish, 0.9));
    ask(transcriber);
    transcriber.take(answer(Tokens{at(0)} + say(" you") + Tokens{at(0.4), kEnd}, -2.0f));
  }
  EXPECT_TRUE(is_done(transcriber));
  EXPECT_EQ(transcriber.text(), "");
}

TEST_F(TranscriberTest, EveryAnswerMovesOn) {
  // The attempts have nothing, only the end, only timestamps, or pairs at the very beginning.
  for (const Tokens& tokens : {Tokens{}, Tokens{kEnd}, Tokens{at(0)}, Tokens{at(0), at(0)},
                               Tokens{at(0), at(0), kEnd}, say("x"), Tokens{at(0), at(0), at(0)}}) {
    Transcriber transcriber = start(1.5, {.language = "en", .temperature = 0.5f});
    int num_queries = 0;
    while (!is_done(transcriber)) {
      ASSERT_LT(++num_queries, 10) << testing::PrintToString(tokens);
      const bool listens = ask(transcriber).params.max_tokens == 1;
      transcriber.take(listens ? heard(kEnglish) : answer(tokens));
    }
  }
}

TEST_F(TranscriberTest, WhatWasSaidBeforeIsTextAlone) {
  Transcriber transcriber =
      start(0.5, {.translates = true, .language = "de", .prompt = "  ab\xc4\x80  "});
  ask(transcriber);
  transcriber.take(heard(kGerman));
  const Tokens expected =
      Tokens{kPrevious} + say(" ab\xc4\x80") + Tokens{kStart, kGerman, kTranslate};
  EXPECT_EQ(ask(transcriber).prompt, expected);
  Transcriber longer = start(0.5, {.language = "en", .prompt = std::string(1000, 'x')});
  ask(longer);
  longer.take(heard(kEnglish));
  const SpeechQuery query = ask(longer);
  EXPECT_EQ(query.prompt.size(), 1u + 223u + 3u);
  EXPECT_LE(static_cast<int32_t>(query.prompt.size()) + query.params.max_tokens, 448);
}

TEST_F(TranscriberTest, WordsAreTimedByTheirTokens) {
  Transcriber transcriber = start(1.6, {.language = "en", .times_words = true});
  ask(transcriber);
  transcriber.take(heard(kEnglish));
  const Tokens prompt = ask(transcriber).prompt;
  const Tokens said = Tokens{at(0.1)} + say(" hi, yo") + Tokens{at(0.8), at(0.8)};
  transcriber.take(answer(said + Tokens{kEnd}));
  EXPECT_TRUE(transcriber.segments().empty()) << "the words have no times yet";
  SpeechQuery query = ask(transcriber);
  ASSERT_NE(query.alignment, nullptr);
  EXPECT_EQ(query.prompt, prompt + said);
  EXPECT_EQ(query.alignment->first_aligned_token, 3);
  EXPECT_EQ(query.alignment->num_aligned_rows, 50);
  SpeechAnswer rows;
  rows.pooled = {.num_columns = 1, .values = {5, 6, 10, 12, 20, 21, 30, 35, 40, 41}};
  transcriber.take(rows);
  ASSERT_EQ(transcriber.segments().size(), 1u);
  const std::vector<TranscriptWord>& words = transcriber.segments()[0].words;
  ASSERT_EQ(words.size(), 2u);
  EXPECT_EQ(words[0].text, " hi,");
  EXPECT_NEAR(words[0].start, 0.10, 1e-9) << "where the timestamp before it ends";
  EXPECT_NEAR(words[0].end, 0.40, 1e-9);
  EXPECT_EQ(words[1].text, " yo");
  EXPECT_NEAR(words[1].start, 0.40, 1e-9);
  EXPECT_NEAR(words[1].end, 0.70, 1e-9);
  // The next window begins at 0.8. Its answer is cut short, so the model has not read the last
  // token.
  ask(transcriber);
  transcriber.take(heard(kEnglish));
  ask(transcriber);
  transcriber.take(answer(Tokens{at(0.0)} + say("ab")));
  query = ask(transcriber);
  EXPECT_EQ(query.prompt, prompt + Tokens{at(0.0)} + say("a"));
  EXPECT_EQ(query.alignment->num_aligned_rows, 40);
  rows.pooled.values = {10, 45};
  transcriber.take(rows);
  EXPECT_TRUE(is_done(transcriber));
  const TranscriptWord& last = transcriber.segments()[1].words.at(0);
  EXPECT_EQ(last.text, "ab");
  EXPECT_NEAR(last.start, 1.0, 1e-9);
  EXPECT_NEAR(last.end, 1.6, 1e-9) << "not behind the end";
}

TEST(TranscriptWords, GoByLanguage) {
  const ByteCodec codec;
  std::vector<TimedToken> tokens;
  const std::string text = " \"a\xc3\xa9!\" - b(c) \xff";
  for (const char c : text) {
    const auto start = static_cast<double>(tokens.size());
    tokens.push_back({static_cast<unsigned char>(c), start, start + 1});
  }
  const auto texts = [&](bool has_spaces) {
    std::vector<std::string> list;
    for (const TranscriptWord& word : make_words(tokens, codec, has_spaces))
      list.push_back(word.text);
    return list;
  };
  EXPECT_EQ(make_words({}, codec, true).size(), 0u);
  const std::vector<std::string> words = texts(true);
  EXPECT_EQ(words.front(), " \"a\xc3\xa9!\"");
  EXPECT_FALSE(has_spaces("ja"));
  EXPECT_TRUE(has_spaces("en"));
  EXPECT_GT(texts(false).size(), words.size());
}

TEST(SpeechTokens, AreReadFromTheVocabulary) {
  EXPECT_EQ(read_speech_tokens({}, "").status().code(), StatusCode::kInvalidArgument);
  const auto tokens =
      read_speech_tokens(marks(), R"({"suppress_tokens":[1,2],"begin_suppress_tokens":[3],)"
                                  R"("max_initial_timestamp_index":7,"is_multilingual":false})");
  ASSERT_TRUE(tokens.ok());
  EXPECT_EQ(tokens->suppressed, (Tokens{1, 2}));
  EXPECT_EQ(tokens->suppressed_first, Tokens{3});
  EXPECT_EQ(tokens->max_first_step, 7);
  EXPECT_TRUE(tokens->languages.empty());
  EXPECT_FALSE(tokens->times_words);
  EXPECT_TRUE(read_speech_tokens(marks(), R"({"alignment_heads":[[0,1]]})")->times_words);
  for (const char* text : {"[]", "{", R"({"suppress_tokens":["a"]})", R"({"suppress_tokens":7})",
                           R"({"max_initial_timestamp_index":-3})"}) {
    EXPECT_FALSE(read_speech_tokens(marks(), text).ok()) << text;
  }
}

TEST(TranscriptFormat, TimesOfSubtitles) {
  EXPECT_EQ(server::subtitle_time(0.0, ','), "00:00:00,000");
  EXPECT_EQ(server::subtitle_time(3725.0406, '.'), "01:02:05.041");
  EXPECT_EQ(server::subtitle_time(59.9996, '.'), "00:01:00.000");
}

}  // namespace
}  // namespace quire
