// The input is a byte that chooses the API of a request, and its body. It is converted to the
// requests that the engine would run.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "letter_model.h"
#include "server/anthropic/messages_door.h"
#include "server/llama/llama_door.h"
#include "server/ollama/ollama_door.h"
#include "server/responses/response_store.h"
#include "server/responses/responses_door.h"

namespace {

using quire::server::Door;

void check_refusal(const quire::server::ApiError& error, const Door& door) {
  if (error.status < 400 || error.message.empty()) std::abort();
  if (door.refuse(error).body.empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const quire::ServedModel served = quire::fuzz::letter_model();
  static const quire::ServerOptions options;
  static const Door* const doors[] = {
      &quire::server::kMessagesDoor,        &quire::server::kResponsesDoor,
      &quire::server::kOllamaChatDoor,      &quire::server::kOllamaGenerateDoor,
      &quire::server::kLlamaCompletionDoor, &quire::server::kLlamaInfillDoor};
  if (size == 0) return 0;
  const Door& door = *doors[data[0] % std::size(doors)];
  quire::server::HttpRequest request;
  request.method = "POST";
  request.headers = {{"Content-Type", "application/json"}};
  request.body.assign(reinterpret_cast<const char*>(data) + 1, size - 1);
  const quire::server::PrepareContext context{
      options, served, 0,
      0,       "id",   std::make_shared<quire::server::ResponseStore>(1 << 20, 1 << 20)};
  const auto prepared = door.prepare(request, context);
  if (!prepared.ok()) {
    check_refusal(prepared.error(), door);
    return 0;
  }
  if (prepared.value().at_once) return 0;
  if (prepared.value().writer == nullptr) std::abort();
  for (const quire::GenerationRequest& generation : prepared.value().requests) {
    if (!generation.params.validate(256, options.max_logprobs).ok()) std::abort();
    if (generation.prompt_token_ids.empty() || generation.params.max_tokens < 0) std::abort();
  }
  for (const char c : prepared.value().warning) {
    if (c < 0x20 || c > 0x7e) std::abort();
  }
  return 0;
}
