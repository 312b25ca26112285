#include "server/speech/speech_request.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "server/files/multipart.h"

namespace quire::server {
namespace {

constexpr std::string_view kKnown[] = {"file",
                                       "model",
                                       "language",
                                       "prompt",
                                       "response_format",
                                       "temperature",
                                       "timestamp_granularities[]",
                                       "timestamp_granularities",
                                       "stream",
                                       "seed",
                                       "max_completion_tokens",
                                       "compression_ratio_threshold",
                                       "logprob_threshold",
                                       "no_speech_threshold",
                                       "cache_salt",
                                       "priority",
                                       "request_id"};

struct FormatName {
  std::string_view name;
  TranscriptFormat format;
};
constexpr FormatName kFormats[] = {{"json", TranscriptFormat::kJson},
                                   {"text", TranscriptFormat::kText},
                                   {"verbose_json", TranscriptFormat::kVerboseJson},
                                   {"srt", TranscriptFormat::kSrt},
                                   {"vtt", TranscriptFormat::kVtt}};

std::string language_list(const SpeechTokens& tokens) {
  std::string list;
  for (const auto& [code, id] : tokens.languages) list += (list.empty() ? "" : ", ") + code;
  return list.empty() ? "en" : list;
}

// FormReader reads the fields of one form and keeps the first error.
class FormReader {
 public:
  explicit FormReader(const std::vector<FormPart>& parts) : parts_(parts) {}

  // Returns nullopt when the field is absent.
  std::optional<std::string_view> text(std::string_view name) {
    const FormPart* const part = find_part(parts_, name);
    if (part == nullptr) return std::nullopt;
    if (is_valid_utf8(part->data)) return part->data;
    fail(name, "expected UTF-8 text");
    return std::nullopt;
  }
  template <typename T>
  std::optional<T> number(std::string_view name, T min, T max) {
    const std::optional<std::string_view> digits = text(name);
    if (!digits) return std::nullopt;
    T value{};
    const auto [end, code] =
        std::from_chars(digits->data(), digits->data() + digits->size(), value);
    if (code == std::errc() && end == digits->data() + digits->size() && value >= min &&
        value <= max)
      return value;
    fail(name, fmt::format("expected a number in [{}, {}], got {}", min, max, in_quotes(*digits)));
    return std::nullopt;
  }
  bool flag(std::string_view name) {
    const std::string_view value = text(name).value_or("false");
    if (value == "true" || value == "True" || value == "1") return true;
    if (value != "false" && value != "False" && value != "0")
      fail(name, fmt::format("expected true or false, got {}", in_quotes(value)));
    return false;
  }
  void fail(std::string_view name, std::string message) {
    if (!error_) error_ = field_error(name, std::move(message));
  }
  const ApiCheck& error() const { return error_; }

 private:
  const std::vector<FormPart>& parts_;
  ApiCheck error_;
};

void read_format(FormReader& form, PreparedSpeech& speech) {
  const std::string_view name = form.text("response_format").value_or("json");
  const auto* const known =
      std::ranges::find_if(kFormats, [&](const FormatName& one) { return one.name == name; });
  if (known == std::end(kFormats)) {
    return form.fail(
        "response_format",
        fmt::format("expected json, text, verbose_json, srt or vtt, got {}", in_quotes(name)));
  }
  speech.format = known->format;
  speech.streams = form.flag("stream");
  if (speech.streams && speech.format != TranscriptFormat::kJson &&
      speech.format != TranscriptFormat::kText) {
    form.fail("stream", fmt::format("expected response_format json or text, got {}", name));
  }
}

// Reads whether the request wants the times of words. The times of segments are noted in `speech`.
bool read_granularities(const std::vector<FormPart>& parts, const SpeechTokens& tokens,
                        FormReader& form, PreparedSpeech& speech) {
  constexpr std::string_view kName = "timestamp_granularities";
  bool is_there = false, has_segments = false, has_words = false;
  for (const FormPart& part : parts) {
    if (!part.name.starts_with(kName)) continue;
    is_there = true;
    has_segments = has_segments || part.data == "segment";
    has_words = has_words || part.data == "word";
    if (part.data != "segment" && part.data != "word")
      form.fail(kName, fmt::format("expected segment or word, got {}", in_quotes(part.data)));
  }
  if (has_words && !tokens.times_words) {
    form.fail(kName,
              "expected segment: the model's generation_config.json has no alignment_heads, which "
              "tell when words are said");
  }
  if (!is_there) return false;
  if (speech.format != TranscriptFormat::kVerboseJson)
    form.fail(kName, "expected response_format verbose_json beside it");
  speech.lists_segments = has_segments;
  return has_words;
}

TranscriptionOptions read_options(FormReader& form, bool translates, const SpeechModel& model,
                                  int32_t max_model_len) {
  TranscriptionOptions options{.translates = translates};
  if (translates && model.tokens.languages.empty())
    form.fail("model", "expected a model of several languages: this one knows English alone");
  if (const auto language = form.text("language"); language && !language->empty()) {
    options.language = *language;
    std::ranges::transform(options.language, options.language.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    const bool is_english = model.tokens.languages.empty() && options.language == "en";
    if (!is_english && model.tokens.find_language(options.language) < 0) {
      form.fail("language", fmt::format("expected one of {}, got {}", language_list(model.tokens),
                                        in_quotes(*language)));
    }
  }
  options.prompt = form.text("prompt").value_or("");
  options.temperature = form.number<float>("temperature", 0.0f, 1.0f).value_or(0.0f);
  options.seed = form.number<uint64_t>("seed", 0, UINT64_MAX);
  options.max_tokens = form.number<int32_t>("max_completion_tokens", 1, max_model_len).value_or(0);
  constexpr double kMost = 1e6;
  options.max_compression_ratio = form.number<double>("compression_ratio_threshold", 0.0, kMost)
                                      .value_or(options.max_compression_ratio);
  options.min_mean_logprob =
      form.number<double>("logprob_threshold", -kMost, 0.0).value_or(options.min_mean_logprob);
  options.max_no_speech_prob =
      form.number<double>("no_speech_threshold", 0.0, 1.0).value_or(options.max_no_speech_prob);
  return options;
}

ApiCheck check_part_names(const std::vector<FormPart>& parts, bool is_strict,
                          std::string& warning) {
  for (const FormPart& part : parts) {
    if (std::ranges::find(kKnown, part.name) != std::end(kKnown)) continue;
    if (is_strict) return field_error(presentable(part.name), "this field is unknown");
    if (warning.empty())
      warning = presentable(fmt::format("unknown field {} has no effect", part.name));
  }
  return std::nullopt;
}

void read_schedule(const HttpRequest& request, FormReader& form, const PrepareContext& context,
                   PreparedSpeech& speech) {
  const auto header = request.header("X-Request-Id");
  const std::string_view given = form.text("request_id").value_or(header.value_or(""));
  speech.external_id = fmt::format("trsc-{}", is_request_id(given) ? given : context.random_id);
  int32_t priority = form.number<int32_t>("priority", INT32_MIN, INT32_MAX).value_or(0);
  if (const auto of_key = request.header("X-Vllm-Priority"); of_key && priority == 0)
    std::from_chars(of_key->data(), of_key->data() + of_key->size(), priority);
  if (priority != 0 && !context.options.priority_scheduling)
    form.fail("priority", "expected 0: this server does not schedule by priority");
  speech.priority = priority;
  speech.cache_keys.salt = form.text("cache_salt").value_or("");
  speech.arrival_us = context.arrival_us;
  if (context.options.request_timeout_ms)
    speech.timeout_us = *context.options.request_timeout_ms * 1000;
}

// An error about a recording is a mistake in the request, unless the server has no room.
ApiError audio_error(const Status& status) {
  ApiError error = status.code() == StatusCode::kDataLoss ? api_error(400, status.message())
                                                          : from_status(status);
  error.param = "file";
  return error;
}

}  // namespace

ApiResult<PreparedCall> prepare_speech(const HttpRequest& request, bool translates,
                                       const PrepareContext& context) {
  const ServedModel& model = context.model;
  if (model.speech == nullptr || model.codec == nullptr)
    return api_error(404, "the model hears nothing");
  ApiResult<std::vector<FormPart>> parts =
      parse_form(request.header("Content-Type").value_or(""), request.body);
  if (!parts.ok()) return parts.error();
  PreparedCall call;
  if (ApiCheck error = check_part_names(parts.value(), context.options.strict_fields, call.warning))
    return *error;
  FormReader form(parts.value());
  if (const auto name = form.text("model")) {
    if (ApiCheck error = check_model(std::string(*name), model)) return *error;
  }
  auto speech = std::make_shared<PreparedSpeech>();
  speech->model = model.speech;
  speech->codec = model.codec;
  read_format(form, *speech);
  TranscriptionOptions options = read_options(form, translates, *model.speech, model.max_model_len);
  options.times_words = read_granularities(parts.value(), model.speech->tokens, form, *speech);
  read_schedule(request, form, context, *speech);
  if (form.error()) return *form.error();
  const FormPart* const file = find_part(parts.value(), "file");
  if (file == nullptr) return field_error("file", "expected a recording, got none");
  Result<HeardRecording> recording = model.speech->audio.load(file->data);
  if (!recording.ok()) return audio_error(recording.status());
  speech->transcriber = std::make_unique<Transcriber>(
      *speech->model, *speech->codec, std::move(*recording), options, model.max_model_len);
  call.speech = std::move(speech);
  return call;
}

}  // namespace quire::server
