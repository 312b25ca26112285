// These functions turn request fields into what the engine runs: they render and tokenize prompts,
// resolve defaults and check bounds. They are pure functions of their arguments, and any thread may
// call them. They are the slow part of accepting a request.
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

// The result of preparing a request: everything that its call needs.
struct PreparedCall {
  std::vector<GenerationRequest> requests;  // one per prompt
  std::shared_ptr<const Adapter> adapter;   // null: the model itself
  ResponseShape shape;
  std::string warning;  // for the warning header
  std::unique_ptr<AnswerWriter> writer;
  std::shared_ptr<DetachedAnswer> detached;  // null: the call ends when its client leaves
  std::optional<HttpResponse> at_once = {};  // the answer of a call that needs no engine
  // A recording to transcribe. When it is set, only `warning` of the members above is used
  // (server/speech).
  std::shared_ptr<PreparedSpeech> speech;
};

struct PrepareContext {
  const ServerOptions& options;
  const ServedModel& model;
  int64_t arrival_us = 0;  // engine clock
  int64_t created_s = 0;   // Unix time
  std::string random_id;   // used when the client gives no id
  // Stores responses that clients can read later. Running responses share it. Null: none are
  // stored.
  std::shared_ptr<ResponseStore> responses = nullptr;
  const ServerState* server = nullptr;  // null: without a server
};

// Prepares a request of OpenAI's own routes.
ApiResult<PreparedCall> prepare_call(const HttpRequest& request, Endpoint endpoint,
                                     const PrepareContext& context);
// Prepares parsed fields, for APIs whose requests have another form. The answer's id is `id_prefix`
// and the request's id. Only the headers of `request` are read. The caller sets the writer.
ApiResult<PreparedCall> prepare_fields(ParsedFields parsed, const HttpRequest& request,
                                       Endpoint endpoint, std::string_view id_prefix,
                                       const PrepareContext& context);

// The following functions are the steps of prepare_call. find_adapter() returns null when `model`
// is the served model itself or is absent. 404: no model and no adapter has this name.
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
// Returns whether `text` is 1 to 128 characters of [A-Za-z0-9._:-].
bool is_request_id(std::string_view text);

}  // namespace quire::server
