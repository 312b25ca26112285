// These functions make a request's span, with vLLM's name and attributes (llm_request, gen_ai.*).
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

// The attributes of a request that are known before it runs.
struct WorkFacts {
  int64_t arrival_us = 0;  // engine clock
  std::vector<std::pair<std::string, Span::Value>> attributes;
  bool generates = true;  // the span counts its generated tokens
};
// The call must have at least one request.
WorkFacts facts_of(const PreparedCall& call);
WorkFacts facts_of(const PreparedPooling& call);
WorkFacts facts_of(const PreparedSpeech& call, const std::string& model);

// Returns a function that takes the deltas of a request and builds its span. `take` gets the span
// when the last copy of the function is destroyed.
std::function<void(const OutputDelta&)> trace_work(std::function<void(Span)> take,
                                                   const TraceContext& trace, WorkFacts facts,
                                                   const Clock& clock);

// Writes the span as one line of the log.
void log_span(const Span& span);

// Returns the trace that a request's headers name, or else a new one.
TraceContext trace_of(const HttpRequest& request);

}  // namespace quire::server
