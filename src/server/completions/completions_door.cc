#include "server/completions/completions_door.h"

namespace quire::server {
namespace {

using M = RouteMode;
using K = RouteKind;

template <Endpoint endpoint>
ApiResult<PreparedCall> prepare(const HttpRequest& request, const PrepareContext& context) {
  return prepare_call(request, endpoint, context);
}

constexpr Door kCompletions{&prepare<Endpoint::kCompletions>, nullptr, nullptr, &error_response};
constexpr Door kChat{&prepare<Endpoint::kChat>, nullptr, nullptr, &error_response};

const Route kCompletionsRoutes[] = {
    {"/v1/completions", "POST", K::kWork, M::kGeneration, kCompletions, "Continue a text."},
    {"/v1/chat/completions", "POST", K::kWork, M::kGeneration, kChat, "Answer a conversation."},
};

}  // namespace

std::span<const Route> completions_routes() { return kCompletionsRoutes; }

}  // namespace quire::server
