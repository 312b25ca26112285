#include "server/api.h"

#include <string_view>
#include <utility>

#include "base/check.h"
#include "engine/async_engine.h"
#include "server/openai/tokenizer_codec.h"
#include "server/routes/openapi.h"

namespace quire::server {
namespace {

// What the model leaves to its engine, and how its chat answers are taken apart.
ServedModel completed(ServedModel model, const ReplyFormat& format) {
  const ExecutorInfo info = model.engine->model_info();
  if (model.codec == nullptr) model.codec = make_ids_only_codec(info.vocab_size);
  if (model.vocab_size <= 0) model.vocab_size = info.vocab_size;
  if (model.max_model_len <= 0) model.max_model_len = info.max_model_len;
  const auto bind = [&](const ReplyFormat& in_use) -> std::shared_ptr<const ReplySyntax> {
    if (in_use.plain()) return nullptr;
    return std::make_shared<ReplySyntax>(in_use, model.codec->mark_tokens());
  };
  model.reply_syntax = bind(format);
  model.reply_syntax_without_calls = bind(format.without_calls());
  return model;
}

}  // namespace

Api::Api(ServerOptions options, ServedModel model, WorkerPool& workers, ApiParts parts)
    : options_(std::move(options)),
      model_(completed(std::move(model), options_.reply_format)),
      state_{.batches = std::move(parts.batches), .keys = std::move(parts.keys)},
      gate_(options_, model_, state_),
      runner_(options_, model_, state_, workers) {
  state_.openapi = openapi_document(options_, gate_.asks_for_keys(), model_.vocab_size);
}

std::optional<HttpResponse> Api::on_head(const HttpRequest& head) { return gate_.stop(head); }

void Api::on_request(HttpRequest request, std::shared_ptr<ReplyChannel> reply) {
  const Route* const route = gate_.route_of(request.path);
  QUIRE_CHECK(route != nullptr, "on_head() lets only known routes through");
  HeaderList headers = gate_.answer_headers(request);
  request.path = std::string(gate_.local_path(request.path));
  runner_.run(*route, std::move(request), std::move(headers), std::move(reply));
}

bool Api::work_waits() const { return model_.engine->has_waiting(); }

int64_t Api::now_us() const { return model_.engine->clock().now_us(); }

void Api::on_done(const HttpRequest& head, int status, double seconds) {
  const Route* const route = gate_.route_of(head.path);
  state_.http_metrics.record(route ? route->path : std::string_view("none"), head.method, status,
                             seconds);
}

}  // namespace quire::server
