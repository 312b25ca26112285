// What a request's span says: vLLM's name and attributes (llm_request, gen_ai.*).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/async_engine.h"
#include "server/http/http_types.h"
#include "server/openai/prepare.h"
#include "server/pooling/pooling_request.h"
#include "server/speech/speech_request.h"
#include "server/telemetry/exporter.h"

namespace quire::server {

// What is known of a request before it runs.
struct WorkFacts {
  int64_t arrival_us = 0;  // engine clock
  std::vector<std::pair<std::string, Span::Value>> attributes;
  bool generates = true;  // tokens, which the span counts
};
// Its requests are not empty.
WorkFacts facts_of(const PreparedCall& call);
WorkFacts facts_of(const PreparedPooling& call);
WorkFacts facts_of(const PreparedSpeech& call, const std::string& model);

// Notes what becomes of a request, which is told by its deltas, and gives the span to `take` when the
// last copy of the returned function is gone.
std::function<void(const OutputDelta&)> trace_work(std::function<void(Span)> take,
                                                   const TraceContext& trace, WorkFacts facts,
                                                   const Clock& clock);

// Writes a line of the log with what the span says.
void log_span(const Span& span);

// Returns the trace that a request belongs to, or one that begins with it.
TraceContext trace_of(const HttpRequest& request);

}  // namespace quire::server
