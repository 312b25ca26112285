// From request fields to what the engine runs: prompts rendered and tokenized, defaults resolved,
// bounds checked. Pure functions of their arguments; any thread; the slow part of a request's way
// in.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/media.h"
#include "core/sampling_params.h"
#include "engine/async_engine.h"
#include "server/answer/answer_writer.h"
#include "server/answer/detached_answer.h"
#include "server/http/api_error.h"
#include "server/http/server_options.h"
#include "server/media/chat_images.h"
#include "server/openai/chunk_builder.h"
#include "server/openai/request_fields.h"
#include "server/openai/served_model.h"

namespace quire::server {

class ResponseStore;
struct PreparedSpeech;
struct ServerState;

// Everything a call needs once its request has been understood.
struct PreparedCall {
  std::vector<GenerationRequest> requests;  // one per prompt
  std::shared_ptr<const Adapter> adapter;   // that `model` names; null: the model itself
  ResponseShape shape;
  std::string warning;  // for the warning header
  std::unique_ptr<AnswerWriter> writer;
  std::shared_ptr<DetachedAnswer> detached;  // null: the call ends when its client leaves
  std::optional<HttpResponse> at_once = {};  // the answer, where the engine is not asked
  // A recording to be written down, instead of all of the above but the warning (server/speech).
  std::shared_ptr<PreparedSpeech> speech;
};

struct PrepareContext {
  const ServerOptions& options;
  const ServedModel& model;
  int64_t arrival_us = 0;  // engine clock
  int64_t created_s = 0;   // Unix time
  std::string random_id;   // used when the client gives no id
  // Of answers that clients come back to, shared with those that are under way; null: none are kept.
  std::shared_ptr<ResponseStore> responses = nullptr;
  const ServerState* server = nullptr;  // null: without a server
};

// A request of OpenAI's own routes.
ApiResult<PreparedCall> prepare_call(const HttpRequest& request, Endpoint endpoint,
                                     const PrepareContext& context);
// The same from the fields on, for APIs that write theirs otherwise. The answer's id is `id_prefix`
// and the request's; `request` is asked for its headers alone. The writer is left to the caller.
ApiResult<PreparedCall> prepare_fields(ParsedFields parsed, const HttpRequest& request,
                                       Endpoint endpoint, std::string_view id_prefix,
                                       const PrepareContext& context);

// The checks and conversions of prepare_call, one by one.
// Null for the served model itself, which is also meant where none is named; 404: nobody has this
// name.
ApiResult<std::shared_ptr<const Adapter>> find_adapter(const std::optional<std::string>& model,
                                                       const ServedModel& served);
ApiCheck check_model(const std::optional<std::string>& model, const ServedModel& served);
ApiResult<SamplingParams> resolve_sampling(const RequestFields& fields, Endpoint endpoint,
                                           const PrepareContext& context);
struct RenderedChat {
  std::string prompt;
  std::string response_role;
  std::string continued;   // the final message's text
  std::string echo;        // the final message's text when `echo` asks for it and the roles match
  ChatImages images = {};  // in the order of the conversation
};
ApiResult<RenderedChat> render_chat(RequestFields& fields, const PrepareContext& context);
// 128 characters of [A-Za-z0-9._:-] at most, at least one.
bool is_request_id(std::string_view text);

}  // namespace quire::server
