// From the body of a pooling route to what the engine computes: texts and pairs tokenized, cut and
// checked. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/pooling.h"
#include "engine/output/generation.h"
#include "server/http/api_error.h"
#include "server/openai/prepare.h"

namespace quire::server {

enum class PoolingRoute : uint8_t {
  kEmbeddings,   // /v1/embeddings, as OpenAI's
  kCohereEmbed,  // /v2/embed, as Cohere's
  kPooling,
  kClassify,
  kScore,
  kRerank,       // as Jina's and Cohere's
  kOllamaEmbed,  // /api/embed, as Ollama's
};

// Returns the route that answers this path.
PoolingRoute pooling_route_of(std::string_view path);

enum class VectorFormat : uint8_t { kFloat, kBase64, kBytes };

// Everything a call needs once its request has been understood.
struct PreparedPooling {
  PoolingRoute route = PoolingRoute::kEmbeddings;
  std::vector<GenerationRequest> requests;
  std::string id;
  std::string model;
  int64_t created_s = 0;
  int64_t num_prompt_tokens = 0;
  VectorFormat format = VectorFormat::kFloat;
  std::vector<std::string> texts;  // of kCohereEmbed and kRerank: what the request brought
  // Scores by embeddings: the first num_queries requests are queries (one for all, or one for each),
  // the others what they are compared with. 0: each request is a pair.
  size_t num_queries = 0;
  size_t top_n = 0;               // of kRerank; 0: all
  bool returns_documents = true;  // likewise
  std::string warning;            // for the warning header
};

ApiResult<PreparedPooling> prepare_pooling(const HttpRequest& request,
                                           const PrepareContext& context);

}  // namespace quire::server
