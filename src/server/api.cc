#include "server/api.h"

#include <limits>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "server/routes/openapi.h"

namespace quire::server {
namespace {

// Returns the number of token ids that the model's vocabulary has.
int32_t vocab_size(const ModelHost& models) {
  const ModelUse only = models.only();
  return only != nullptr ? only->model.vocab_size : std::numeric_limits<int32_t>::max();
}

}  // namespace

Api::Api(ServerOptions options, std::shared_ptr<ModelHost> models, WorkerPool& workers,
         ApiParts parts)
    : options_(std::move(options)),
      state_{.models = std::move(models),
             .batches = std::move(parts.batches),
             .keys = std::move(parts.keys),
             .exporter = std::move(parts.exporter)},
      gate_(options_, state_),
      runner_(options_, state_, workers) {
  state_.openapi = openapi_document(options_, gate_.asks_for_keys(), vocab_size(*state_.models));
}

std::optional<HttpResponse> Api::on_head(const HttpRequest& head) { return gate_.stop(head); }

void Api::on_request(HttpRequest request, std::shared_ptr<ReplyChannel> reply) {
  const Route* const route = gate_.route_of(request.path);
  QUIRE_CHECK(route != nullptr, "on_head() lets only known routes through");
  HeaderList headers = gate_.answer_headers(request);
  request.path = std::string(gate_.local_path(request.path));
  runner_.run(*route, std::move(request), std::move(headers), std::move(reply));
}

bool Api::work_waits() const { return state_.models->work_waits(); }

void Api::on_done(const HttpRequest& head, int status, double seconds) {
  const Route* const route = gate_.route_of(head.path);
  state_.http_metrics.record(route ? route->path : std::string_view("none"), head.method, status,
                             seconds);
}

}  // namespace quire::server
