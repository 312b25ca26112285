// A Transcriber transcribes a recording window by window. It returns the next query for the model
// and takes the answer; the caller runs the query. See Radford et al., 2022, section 4.5.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/media.h"
#include "core/pooling.h"
#include "core/sampling_params.h"
#include "core/step.h"
#include "server/speech/speech_model.h"
#include "server/speech/transcript_words.h"

namespace quire {

struct TranscriptionOptions {
  bool translates = false;  // into English
  std::string language;     // ISO 639; empty: detected at the beginning
  std::string prompt;       // the text before the recording
  // 0 is greedy decoding; poor attempts are then repeated at higher temperatures.
  float temperature = 0.0f;
  std::optional<uint64_t> seed = {};
  int32_t max_tokens = 0;  // per window; 0: half of the model's context
  bool times_words = false;
  // Limits for a window. An attempt with a higher compression ratio or a lower mean logprob is
  // repeated. With a lower mean logprob and a higher no-speech probability the window is silence.
  double max_compression_ratio = 2.4;
  double min_mean_logprob = -1.0;
  double max_no_speech_prob = 0.6;
};

// Times are seconds from the beginning of the recording.
struct TranscriptSegment {
  double start = 0.0;
  double end = 0.0;
  int32_t window_frame = 0;  // where its window begins
  std::string text;
  std::vector<TokenId> token_ids;
  float temperature = 0.0f;
  double mean_logprob = 0.0;
  double compression_ratio = 0.0;
  double no_speech_prob = 0.0;
  std::vector<TranscriptWord> words = {};  // with TranscriptionOptions::times_words
};

// One request to the model.
struct SpeechQuery {
  std::vector<TokenId> prompt;
  std::shared_ptr<const MediaItem> window;
  SamplingParams params;
  // When set, the query generates nothing, but asks where in the window the prompt's tokens begin.
  std::shared_ptr<const PoolingParams> alignment = {};
};

// The answer to a query. `logprobs` has one entry per token.
struct SpeechAnswer {
  std::vector<TokenId> token_ids;
  std::vector<TokenLogprobs> logprobs;
  PooledOutput pooled = {};  // with SpeechQuery::alignment
};

// One thread at a time may use it.
class Transcriber {
 public:
  // `max_model_len` is the number of tokens of a window and its prompt. The model and the codec
  // must outlive the transcriber.
  Transcriber(const SpeechModel& model, const TextCodec& codec, HeardRecording recording,
              TranscriptionOptions options, int32_t max_model_len);

  // Returns the next query; nullopt: the recording is transcribed.
  Result<std::optional<SpeechQuery>> next();
  // Takes the answer to the last query.
  void take(const SpeechAnswer& answer);

  const std::vector<TranscriptSegment>& segments() const { return segments_; }
  // Returns the text of all segments so far.
  std::string text() const;
  const std::string& language() const { return language_; }  // empty: not known (yet)
  double seconds() const { return recording_.seconds(); }
  const TranscriptionOptions& options() const { return options_; }

 private:
  struct Attempt {
    std::vector<TokenId> token_ids;  // without the end token
    bool has_end = false;
    std::vector<double> token_ends;  // seconds from the window's beginning; empty: unknown
    std::string text;
    double mean_logprob = 0.0;
    double compression_ratio = 0.0;

    // Returns how many tokens the model has read: all, or all but the last when there was no end
    // token.
    int64_t num_read() const { return std::ssize(token_ids) - (has_end ? 0 : 1); }
  };
  SpeechQuery listen_query() const;  // asks which language is spoken, and if anybody speaks
  Result<SpeechQuery> write_query() const;
  Result<SpeechQuery> align_query() const;  // asks when each token of aligned_ is spoken
  Result<std::vector<TokenId>> earlier_tokens() const;
  void take_language(const SpeechAnswer& answer);
  Attempt read_attempt(const SpeechAnswer& answer) const;
  bool is_silence(const Attempt& attempt) const;
  bool is_poor(const Attempt& attempt) const;
  void take_attempt(const Attempt& attempt);
  void take_alignment(const PooledOutput& rows);
  int32_t add_segments(const Attempt& attempt);
  // Adds the attempt's tokens from `begin` on.
  void add_segment(const Attempt& attempt, size_t begin, size_t count, double start, double end);
  std::vector<TranscriptWord> words_of(const Attempt& attempt, size_t begin, size_t count) const;
  int32_t frames_left() const;
  double time_of(TokenId timestamp) const;
  std::string text_of(std::span<const TokenId> token_ids) const;
  float temperature() const;

  const SpeechModel& model_;
  const TextCodec& codec_;
  HeardRecording recording_;
  const TranscriptionOptions options_;
  const int32_t max_model_len_;
  std::shared_ptr<const TranscriptRules> rules_;
  std::shared_ptr<const MediaItem> window_;  // null: the next window has not been started
  int32_t frame_ = 0;                        // where the window begins
  bool has_listened_ = false;
  int32_t num_attempts_ = 0;        // for the current window
  std::optional<Attempt> aligned_;  // the accepted attempt, until its words have times
  double no_speech_prob_ = 0.0;
  std::string language_;
  std::vector<TranscriptSegment> segments_;
};

}  // namespace quire
