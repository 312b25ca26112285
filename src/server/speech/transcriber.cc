#include "server/speech/transcriber.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text_fields.h"

namespace quire {
namespace {

constexpr int32_t kFramesPerStep = 2;  // frames per step of a timestamp
constexpr int32_t kMostAttempts = 6;
constexpr float kWarmer = 0.2f;  // added for each further attempt

// Returns how many times shorter the text becomes by compression. A model that has lost track
// repeats itself, which compresses well.
double compression_ratio(std::string_view text) {
  if (text.empty()) return 0.0;
  uLongf size = compressBound(static_cast<uLong>(text.size()));
  std::vector<Bytef> compressed(size);
  const int status = compress(compressed.data(), &size, reinterpret_cast<const Bytef*>(text.data()),
                              static_cast<uLong>(text.size()));
  return status == Z_OK ? static_cast<double>(text.size()) / static_cast<double>(size) : 0.0;
}

}  // namespace

Transcriber::Transcriber(const SpeechModel& model, const TextCodec& codec, HeardRecording recording,
                         TranscriptionOptions options, int32_t max_model_len)
    : model_(model),
      codec_(codec),
      recording_(std::move(recording)),
      options_(std::move(options)),
      max_model_len_(max_model_len),
      rules_(std::make_shared<TranscriptRules>(model.tokens.rules())),
      language_(model.tokens.languages.empty() ? "en" : options_.language) {}

int32_t Transcriber::frames_left() const {
  return std::min(recording_.num_frames() - frame_, model_.audio.shape().num_frames);
}

float Transcriber::temperature() const {
  return std::min(options_.temperature + kWarmer * static_cast<float>(num_attempts_), 1.0f);
}

Result<std::optional<SpeechQuery>> Transcriber::next() {
  if (frames_left() <= 0) return std::optional<SpeechQuery>();
  if (window_ == nullptr) {
    QUIRE_ASSIGN_OR_RETURN(window_, model_.audio.window(recording_, frame_));
    has_listened_ = false;
    num_attempts_ = 0;
  }
  if (!aligned_ && !has_listened_) return std::optional(listen_query());
  QUIRE_ASSIGN_OR_RETURN(SpeechQuery query, aligned_ ? align_query() : write_query());
  return std::optional(std::move(query));
}

SpeechQuery Transcriber::listen_query() const {
  const SpeechTokens& tokens = model_.tokens;
  SpeechQuery query{.prompt = {tokens.start}, .window = window_, .params = {}};
  query.params.max_tokens = 1;
  query.params.temperature = 0.0f;
  query.params.ignore_eos = true;
  query.params.logprobs = 0;
  if (tokens.no_speech >= 0) query.params.logprob_token_ids = {tokens.no_speech};
  if (!tokens.languages.empty()) {
    query.params.allowed_token_ids.emplace();
    for (const auto& [code, id] : tokens.languages) query.params.allowed_token_ids->push_back(id);
  }
  return query;
}

// Returns the tokens of the client's prompt. Control tokens are left out, because a client may not
// set them.
Result<std::vector<TokenId>> Transcriber::earlier_tokens() const {
  const std::string prompt(trim(options_.prompt));
  if (prompt.empty() || frame_ > 0 || model_.tokens.previous < 0) return std::vector<TokenId>();
  QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> encoded, codec_.encode(" " + prompt, false));
  std::vector<TokenId> tokens = {model_.tokens.previous};
  for (const TokenId id : encoded) {
    if (id < model_.tokens.end_of_text) tokens.push_back(id);
  }
  const auto most = static_cast<size_t>(std::max(max_model_len_ / 2 - 1, 1));
  if (tokens.size() > most + 1)
    tokens.erase(tokens.begin() + 1, tokens.end() - static_cast<int64_t>(most));
  return tokens;
}

Result<SpeechQuery> Transcriber::write_query() const {
  const SpeechTokens& tokens = model_.tokens;
  SpeechQuery query{.prompt = {}, .window = window_, .params = {}};
  QUIRE_ASSIGN_OR_RETURN(query.prompt, earlier_tokens());
  query.prompt.push_back(tokens.start);
  if (!tokens.languages.empty()) {
    query.prompt.push_back(tokens.find_language(language_));
    query.prompt.push_back(options_.translates ? tokens.translate : tokens.transcribe);
  }
  const int32_t room = max_model_len_ - static_cast<int32_t>(query.prompt.size());
  const int32_t wanted = options_.max_tokens > 0 ? options_.max_tokens : max_model_len_ / 2;
  query.params.max_tokens = std::max(std::min(wanted, room), 1);
  query.params.temperature = temperature();
  query.params.seed = options_.seed;
  query.params.logprobs = 0;
  query.params.eos_token_ids = {tokens.end_of_text};
  query.params.transcript_rules = rules_;
  return query;
}

Result<SpeechQuery> Transcriber::align_query() const {
  QUIRE_ASSIGN_OR_RETURN(SpeechQuery query, write_query());
  PoolingParams alignment{.task = PoolingTask::kAlign};
  alignment.first_aligned_token = static_cast<int32_t>(query.prompt.size());
  alignment.num_aligned_rows = std::max(frames_left() / kFramesPerStep, 1);
  query.prompt.insert(query.prompt.end(), aligned_->token_ids.begin(),
                      aligned_->token_ids.begin() + aligned_->num_read());
  query.params = {};
  query.alignment = std::make_shared<const PoolingParams>(alignment);
  return query;
}

void Transcriber::take(const SpeechAnswer& answer) {
  if (aligned_) return take_alignment(answer.pooled);
  if (has_listened_) return take_attempt(read_attempt(answer));
  take_language(answer);
  has_listened_ = true;
}

void Transcriber::take_language(const SpeechAnswer& answer) {
  no_speech_prob_ = 0.0;
  if (answer.logprobs.empty() || answer.token_ids.empty()) return;
  for (const auto& [id, logprob] : answer.logprobs.front().top) {
    if (id == model_.tokens.no_speech) no_speech_prob_ = std::exp(double{logprob});
  }
  if (!language_.empty()) return;
  for (const auto& [code, id] : model_.tokens.languages) {
    if (id == answer.token_ids.front()) language_ = code;
  }
}

Transcriber::Attempt Transcriber::read_attempt(const SpeechAnswer& answer) const {
  Attempt attempt{.token_ids = answer.token_ids};
  attempt.has_end =
      !attempt.token_ids.empty() && attempt.token_ids.back() == model_.tokens.end_of_text;
  if (attempt.has_end) attempt.token_ids.pop_back();
  attempt.text = text_of(attempt.token_ids);
  double sum = 0.0;
  for (const TokenLogprobs& one : answer.logprobs) sum += one.logprob;
  attempt.mean_logprob = sum / static_cast<double>(std::max<size_t>(answer.logprobs.size(), 1));
  attempt.compression_ratio = compression_ratio(attempt.text);
  return attempt;
}

bool Transcriber::is_silence(const Attempt& attempt) const {
  return no_speech_prob_ > options_.max_no_speech_prob &&
         attempt.mean_logprob < options_.min_mean_logprob;
}

bool Transcriber::is_poor(const Attempt& attempt) const {
  return attempt.compression_ratio > options_.max_compression_ratio ||
         attempt.mean_logprob < options_.min_mean_logprob;
}

void Transcriber::take_attempt(const Attempt& attempt) {
  int32_t num_frames = frames_left();
  if (!is_silence(attempt)) {
    const bool is_timed = !attempt.token_ends.empty();
    const bool may_retry = options_.temperature == 0.0f && num_attempts_ + 1 < kMostAttempts;
    if (may_retry && !is_timed && is_poor(attempt)) {
      ++num_attempts_;
      return;
    }
    if (options_.times_words && !is_timed && attempt.num_read() > 0) {
      aligned_ = attempt;
      return;
    }
    num_frames = add_segments(attempt);
  }
  frame_ += num_frames;
  window_.reset();
}

// A token that the model has not read ends where the token before it ends.
void Transcriber::take_alignment(const PooledOutput& rows) {
  Attempt attempt = std::move(*aligned_);
  aligned_.reset();
  for (const float row : rows.values)
    attempt.token_ends.push_back(double{row} * SpeechTokens::kStepSeconds);
  const double last = attempt.token_ends.empty() ? 0.0 : attempt.token_ends.back();
  attempt.token_ends.resize(attempt.token_ids.size(), last);
  take_attempt(attempt);
}

double Transcriber::time_of(TokenId timestamp) const {
  return static_cast<double>(frame_) * kSamplesPerFrame / kSpeechSampleRate +
         (timestamp - model_.tokens.first_timestamp) * SpeechTokens::kStepSeconds;
}

std::string Transcriber::text_of(std::span<const TokenId> token_ids) const {
  std::vector<TokenId> text;
  for (const TokenId id : token_ids) {
    if (id < model_.tokens.end_of_text) text.push_back(id);
  }
  return codec_.decode(text, false);
}

// A token begins where the token before it ends.
std::vector<TranscriptWord> Transcriber::words_of(const Attempt& attempt, size_t begin,
                                                  size_t count) const {
  if (attempt.token_ends.empty()) return {};
  const double window = time_of(model_.tokens.first_timestamp);
  const auto end_of = [&](size_t i) { return std::min(window + attempt.token_ends[i], seconds()); };
  std::vector<TimedToken> tokens;
  for (size_t i = begin; i < begin + count; ++i) {
    if (attempt.token_ids[i] >= model_.tokens.end_of_text) continue;
    tokens.push_back(
        {.id = attempt.token_ids[i], .start = i == 0 ? window : end_of(i - 1), .end = end_of(i)});
  }
  return make_words(tokens, codec_, has_spaces(options_.translates ? "en" : language_));
}

void Transcriber::add_segment(const Attempt& attempt, size_t begin, size_t count, double start,
                              double end) {
  const std::span<const TokenId> token_ids = std::span(attempt.token_ids).subspan(begin, count);
  std::string text = text_of(token_ids);
  if (trim(text).empty()) return;
  segments_.push_back({.start = start,
                       .end = std::min(end, seconds()),
                       .window_frame = frame_,
                       .text = std::move(text),
                       .token_ids = {token_ids.begin(), token_ids.end()},
                       .temperature = temperature(),
                       .mean_logprob = attempt.mean_logprob,
                       .compression_ratio = attempt.compression_ratio,
                       .no_speech_prob = no_speech_prob_,
                       .words = words_of(attempt, begin, count)});
}

// Adds the segments of an attempt, which end at two timestamps in a row. The audio after the last
// such pair is read again in the next window, unless the model says where the rest ends. Returns
// how many frames are done.
int32_t Transcriber::add_segments(const Attempt& attempt) {
  const std::span<const TokenId> tokens = attempt.token_ids;
  const auto is_time = [&](size_t i) { return tokens[i] >= model_.tokens.first_timestamp; };
  const int32_t num_frames = frames_left();
  size_t begin = 0;
  for (size_t i = 1; i < tokens.size(); ++i) {
    if (!is_time(i - 1) || !is_time(i)) continue;
    add_segment(attempt, begin, i - begin, time_of(tokens[begin]), time_of(tokens[i - 1]));
    begin = i;
  }
  const size_t size = tokens.size();
  const bool ends_with_time = size > 0 && is_time(size - 1);
  const bool ends_with_pair = ends_with_time && size > 1 && is_time(size - 2);
  if (begin > 0 && (!ends_with_time || ends_with_pair)) {
    const int32_t done = kFramesPerStep * (tokens[begin - 1] - model_.tokens.first_timestamp);
    return done > 0 ? done : num_frames;
  }
  const double start = begin < size && is_time(begin) ? time_of(tokens[begin])
                                                      : time_of(model_.tokens.first_timestamp);
  double end = time_of(model_.tokens.first_timestamp + num_frames / kFramesPerStep);
  if (ends_with_time && tokens[size - 1] > model_.tokens.first_timestamp && size - 1 > begin)
    end = time_of(tokens[size - 1]);
  add_segment(attempt, begin, size - begin, start, end);
  return num_frames;
}

std::string Transcriber::text() const {
  std::string text;
  for (const TranscriptSegment& segment : segments_) text += segment.text;
  return std::string(trim(text));
}

}  // namespace quire
