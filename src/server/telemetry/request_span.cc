#include "server/telemetry/request_span.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace quire::server {
namespace {

int64_t unix_now_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

double seconds(int64_t from_us, int64_t to_us) {
  return static_cast<double>(std::max<int64_t>(to_us - from_us, 0)) * 1e-6;
}

class CallSpan {
 public:
  CallSpan(std::shared_ptr<OtlpExporter> exporter, const TraceContext& trace,
           const PreparedCall& call, const Clock& clock)
      : exporter_(std::move(exporter)),
        span_{.trace = trace, .span_id = new_span_id(), .name = "llm_request"} {
    const GenerationRequest& first = call.requests.front();
    span_.start_ns = unix_now_ns() - (clock.now_us() - first.arrival_us) * 1000;
    int64_t prompt_tokens = 0;
    for (const GenerationRequest& request : call.requests)
      prompt_tokens += std::ssize(request.prompt_token_ids);
    span_.attributes = {
        {"gen_ai.response.model", call.shape.model},
        {"gen_ai.request.id", call.shape.id},
        {"gen_ai.request.temperature", double{first.params.temperature}},
        {"gen_ai.request.top_p", double{first.params.top_p}},
        {"gen_ai.request.max_tokens", int64_t{first.params.max_tokens}},
        {"gen_ai.request.n", int64_t{call.shape.n}},
        {"gen_ai.usage.num_sequences", int64_t{call.shape.n} * std::ssize(call.requests)},
        {"gen_ai.usage.prompt_tokens", prompt_tokens}};
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

  ~CallSpan() {
    span_.end_ns = unix_now_ns();
    span_.attributes.emplace_back("gen_ai.usage.completion_tokens", output_tokens_);
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
    exporter_->add(std::move(span_));
  }
  CallSpan(const CallSpan&) = delete;
  CallSpan& operator=(const CallSpan&) = delete;

 private:
  const std::shared_ptr<OtlpExporter> exporter_;
  Span span_;
  int64_t output_tokens_ = 0;
  std::optional<ChoiceTimes> times_;  // of all choices that have ended
};

}  // namespace

std::function<void(const OutputDelta&)> trace_call(std::shared_ptr<OtlpExporter> exporter,
                                                   const TraceContext& trace,
                                                   const PreparedCall& call, const Clock& clock) {
  auto span = std::make_shared<CallSpan>(std::move(exporter), trace, call, clock);
  return [span](const OutputDelta& delta) { span->note(delta); };
}

TraceContext trace_of(const HttpRequest& request) {
  const auto header = request.header("traceparent");
  return (header ? parse_traceparent(*header) : std::nullopt).value_or(new_trace());
}

}  // namespace quire::server
