// These functions turn the body of a pooling route into what the engine computes: they tokenize,
// cut and check texts and pairs of texts. They are pure functions, and any thread may call them.
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
  kEmbeddings,   // /v1/embeddings in OpenAI's form
  kCohereEmbed,  // /v2/embed in Cohere's form
  kPooling,
  kClassify,
  kScore,
  kRerank,       // in the form of Jina and Cohere
  kOllamaEmbed,  // /api/embed in Ollama's form
};

// Returns the route that answers this path.
PoolingRoute pooling_route_of(std::string_view path);

enum class VectorFormat : uint8_t { kFloat, kBase64, kBytes };

// The result of preparing a request: everything that its call needs.
struct PreparedPooling {
  PoolingRoute route = PoolingRoute::kEmbeddings;
  std::vector<GenerationRequest> requests;
  std::string id;
  std::string model;
  int64_t created_s = 0;
  int64_t num_prompt_tokens = 0;
  VectorFormat format = VectorFormat::kFloat;
  std::vector<std::string> texts;  // for kCohereEmbed and kRerank: the texts of the request
  // Set for scores from embeddings: the first num_queries requests are queries (one for all texts,
  // or one for each), and the others are the texts that they are compared with. 0: each request is
  // a pair.
  size_t num_queries = 0;
  size_t top_n = 0;               // for kRerank; 0: all
  bool returns_documents = true;  // for kRerank
  std::string warning;            // for the warning header
};

ApiResult<PreparedPooling> prepare_pooling(const HttpRequest& request,
                                           const PrepareContext& context);

}  // namespace quire::server
