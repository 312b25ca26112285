// What a request's span says: vLLM's name and attributes (llm_request, gen_ai.*).
#pragma once

#include <functional>
#include <memory>

#include "engine/async_engine.h"
#include "server/http/http_types.h"
#include "server/openai/prepare.h"
#include "server/telemetry/exporter.h"

namespace quire::server {

// Notes what becomes of a call, which is told by its deltas, and gives the span to the exporter when
// the last copy of the returned function is gone.
std::function<void(const OutputDelta&)> trace_call(std::shared_ptr<OtlpExporter> exporter,
                                                   const TraceContext& trace,
                                                   const PreparedCall& call, const Clock& clock);

// The trace that a request belongs to, or one that begins with it.
TraceContext trace_of(const HttpRequest& request);

}  // namespace quire::server
