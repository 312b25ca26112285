#include "server/pooling/pooling_door.h"

namespace quire::server {
namespace {

using M = RouteMode;
using K = RouteKind;

constexpr Door kPoolingDoor{nullptr, nullptr, nullptr, &error_response};

const Route kPoolingRoutes[] = {
    {"/v1/embeddings", "POST", K::kWork, M::kPooling, kPoolingDoor,
     "Vectors of texts, as OpenAI's."},
    {"/v2/embed", "POST", K::kWork, M::kPooling, kPoolingDoor, "Vectors of texts, as Cohere's."},
    {"/pooling", "POST", K::kWork, M::kPooling, kPoolingDoor,
     "Vectors or scores of texts, or of each of their tokens."},
    {"/classify", "POST", K::kWork, M::kPooling, kPoolingDoor,
     "The probabilities of labels of texts."},
    {"/score", "POST", K::kWork, M::kPooling, kPoolingDoor, "How well pairs of texts go together."},
    {"/v1/score", "POST", K::kWork, M::kPooling, kPoolingDoor, "As /score."},
    {"/rerank", "POST", K::kWork, M::kPooling, kPoolingDoor,
     "Documents in the order in which they answer a query."},
    {"/v1/rerank", "POST", K::kWork, M::kPooling, kPoolingDoor, "As /rerank."},
    {"/v2/rerank", "POST", K::kWork, M::kPooling, kPoolingDoor, "As /rerank."},
};

}  // namespace

std::span<const Route> pooling_routes() { return kPoolingRoutes; }

}  // namespace quire::server
