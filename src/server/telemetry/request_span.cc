#include "server/telemetry/request_span.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "base/log_format.h"
#include "server/speech/transcriber.h"

namespace quire::server {
namespace {

int64_t unix_now_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

double seconds(int64_t from_us, int64_t to_us) {
  return static_cast<double>(std::max<int64_t>(to_us - from_us, 0)) * 1e-6;
}

class WorkSpan {
 public:
  WorkSpan(std::function<void(Span)> take, const TraceContext& trace, WorkFacts facts,
           const Clock& clock)
      : take_(std::move(take)),
        generates_(facts.generates),
        span_{.trace = trace, .span_id = new_span_id(), .name = "llm_request"} {
    span_.start_ns = unix_now_ns() - (clock.now_us() - facts.arrival_us) * 1000;
    span_.attributes = std::move(facts.attributes);
  }

  void note(const OutputDelta& delta) {
    output_tokens_ += std::ssize(delta.token_ids);
    if (!delta.finish_reason) return;
    if (!delta.status.ok()) {
      span_.has_failed = true;
      span_.error = delta.status.message();
    }
    if (!delta.times) return;
    if (!times_) times_ = *delta.times;
    times_->first_scheduled_us =
        std::min(times_->first_scheduled_us, delta.times->first_scheduled_us);
    times_->first_token_us = std::min(times_->first_token_us, delta.times->first_token_us);
    times_->last_token_us = std::max(times_->last_token_us, delta.times->last_token_us);
  }

  ~WorkSpan() {
    span_.end_ns = unix_now_ns();
    if (generates_) span_.attributes.emplace_back("gen_ai.usage.completion_tokens", output_tokens_);
    if (times_) {
      const ChoiceTimes& t = *times_;
      const std::pair<const char*, double> latencies[] = {
          {"time_in_queue", seconds(t.arrival_us, t.first_scheduled_us)},
          {"time_to_first_token", seconds(t.arrival_us, t.first_token_us)},
          {"e2e", seconds(t.arrival_us, t.last_token_us)},
          {"time_in_model_prefill", seconds(t.first_scheduled_us, t.first_token_us)},
          {"time_in_model_decode", seconds(t.first_token_us, t.last_token_us)},
          {"time_in_model_inference", seconds(t.first_scheduled_us, t.last_token_us)}};
      for (const auto& [name, value] : latencies)
        span_.attributes.emplace_back(std::string("gen_ai.latency.") + name, value);
    } else if (!span_.has_failed) {
      span_.has_failed = true;
      span_.error = "the client left, or the request was aborted";
    }
    take_(std::move(span_));
  }
  WorkSpan(const WorkSpan&) = delete;
  WorkSpan& operator=(const WorkSpan&) = delete;

 private:
  const std::function<void(Span)> take_;
  const bool generates_;
  Span span_;
  int64_t output_tokens_ = 0;
  std::optional<ChoiceTimes> times_;  // of all choices that have ended
};

// Returns OpenTelemetry's name where it has one.
std::string_view operation_of(PoolingRoute route) {
  switch (route) {
    case PoolingRoute::kEmbeddings:
    case PoolingRoute::kCohereEmbed:
    case PoolingRoute::kOllamaEmbed:
      return "embeddings";
    case PoolingRoute::kPooling:
      return "pooling";
    case PoolingRoute::kClassify:
      return "classify";
    case PoolingRoute::kScore:
      return "score";
    case PoolingRoute::kRerank:
      break;
  }
  return "rerank";
}

}  // namespace

WorkFacts facts_of(const PreparedCall& call) {
  const GenerationRequest& first = call.requests.front();
  int64_t prompt_tokens = 0;
  for (const GenerationRequest& request : call.requests)
    prompt_tokens += std::ssize(request.prompt_token_ids);
  return {.arrival_us = first.arrival_us,
          .attributes = {
              {"gen_ai.response.model", call.shape.model},
              {"gen_ai.request.id", call.shape.id},
              {"gen_ai.request.temperature", double{first.params.temperature}},
              {"gen_ai.request.top_p", double{first.params.top_p}},
              {"gen_ai.request.max_tokens", int64_t{first.params.max_tokens}},
              {"gen_ai.request.n", int64_t{call.shape.n}},
              {"gen_ai.usage.num_sequences", int64_t{call.shape.n} * std::ssize(call.requests)},
              {"gen_ai.usage.prompt_tokens", prompt_tokens}}};
}

WorkFacts facts_of(const PreparedPooling& call) {
  return {.arrival_us = call.requests.front().arrival_us,
          .attributes = {{"gen_ai.operation.name", std::string(operation_of(call.route))},
                         {"gen_ai.response.model", call.model},
                         {"gen_ai.request.id", call.id},
                         {"gen_ai.usage.num_sequences", std::ssize(call.requests)},
                         {"gen_ai.usage.prompt_tokens", call.num_prompt_tokens}},
          .generates = false};
}

WorkFacts facts_of(const PreparedSpeech& call, const std::string& model) {
  return {.arrival_us = call.arrival_us,
          .attributes = {{"gen_ai.operation.name", std::string("transcription")},
                         {"gen_ai.response.model", model},
                         {"gen_ai.request.id", call.external_id},
                         {"quire.audio.seconds", call.transcriber->seconds()}}};
}

std::function<void(const OutputDelta&)> trace_work(std::function<void(Span)> take,
                                                   const TraceContext& trace, WorkFacts facts,
                                                   const Clock& clock) {
  auto span = std::make_shared<WorkSpan>(std::move(take), trace, std::move(facts), clock);
  return [span](const OutputDelta& delta) { span->note(delta); };
}

void log_span(const Span& span) {
  std::vector<std::pair<std::string_view, std::string>> fields = {{"trace_id", span.trace.trace_id},
                                                                  {"span_id", span.span_id}};
  for (const auto& [name, value] : span.attributes) {
    fields.emplace_back(
        name, std::visit([](const auto& held) { return fmt::format("{}", held); }, value));
  }
  if (span.has_failed) fields.emplace_back("error", span.error);
  log_fields(LogLevel::kInfo, "request", fields);
}

TraceContext trace_of(const HttpRequest& request) {
  const auto header = request.header("traceparent");
  return (header ? parse_traceparent(*header) : std::nullopt).value_or(new_trace());
}

}  // namespace quire::server
