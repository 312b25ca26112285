#include "sim/report/chrome_trace.h"

#include <iterator>

namespace quire::sim {
namespace {

double us(int64_t ns) { return static_cast<double>(ns) * 1e-3; }

}  // namespace

void ChromeTrace::event(std::string text) {
  events_ += events_.empty() ? "\n" : ",\n";
  events_ += text;
}

void ChromeTrace::add(const StepView& step) {
  if (num_steps_ >= max_steps_) {
    ++num_left_out_;
    return;
  }
  ++num_steps_;
  const StepShape& shape = *step.shape;
  const char* kind = shape.chunks.empty()             ? "decode"
                     : shape.decode.num_requests == 0 ? "prefill"
                                                      : "mixed";
  event(fmt::format(
      R"({{"ph":"X","pid":{},"tid":0,"name":"{}","ts":{:.3f},"dur":{:.3f},"args":{{"step":{},"tokens":{},"requests":{},"prompts":{},"context":{}}}}})",
      step.replica, kind, us(step.begin_ns), us(step.end_ns - step.begin_ns), step.plan->step_id,
      shape.num_tokens, shape.num_requests, shape.chunks.size(), shape.decode.context));
  event(fmt::format(
      R"({{"ph":"C","pid":{},"name":"batch","ts":{:.3f},"args":{{"requests":{},"tokens":{}}}}})",
      step.replica, us(step.begin_ns), shape.num_requests, shape.num_tokens));
}

void ChromeTrace::add_requests(const RunResult& result) {
  for (size_t i = 0; i < result.records.size(); ++i) {
    const RequestRecord& r = result.records[i];
    if (r.outcome != Outcome::kCompleted) continue;
    const auto span = [&](const char* name, int64_t begin_ns, int64_t end_ns) {
      for (const char phase : {'b', 'e'}) {
        event(fmt::format(
            R"({{"ph":"{}","cat":"request","id":{},"pid":{},"tid":1,"name":"{}","ts":{:.3f}}})",
            phase, i, r.replica, name, us(phase == 'b' ? begin_ns : end_ns)));
      }
    };
    span("waiting", r.arrival_ns, r.first_scheduled_ns);
    span("first token", r.first_scheduled_ns, r.first_token_ns);
    if (r.output_tokens > 1) span("decoding", r.first_token_ns, r.last_token_ns);
  }
}

std::string ChromeTrace::text() const {
  return R"({"displayTimeUnit":"ms","traceEvents":[)" + events_ + "\n]}\n";
}

}  // namespace quire::sim
