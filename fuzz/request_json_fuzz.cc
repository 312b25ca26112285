// The input is a byte that chooses the endpoint, and the body of a generation request. It is
// converted to the requests that the engine would run.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "letter_model.h"
#include "server/openai/prepare.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const quire::ServedModel served = quire::fuzz::letter_model();
  static const quire::ServerOptions options;
  if (size == 0) return 0;
  const bool chat = data[0] % 2 == 0;
  quire::server::HttpRequest request;
  request.method = "POST";
  request.headers = {{"Content-Type", "application/json"}};
  request.body.assign(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto prepared = quire::server::prepare_call(
      request, chat ? quire::server::Endpoint::kChat : quire::server::Endpoint::kCompletions,
      {options, served, 0, 0, "id"});
  if (!prepared.ok()) {
    if (prepared.error().status < 400 || prepared.error().message.empty()) std::abort();
    return 0;
  }
  // The requests must have all properties that the engine relies on.
  for (const quire::GenerationRequest& generation : prepared.value().requests) {
    if (!generation.params.validate(256, options.max_logprobs).ok()) std::abort();
    if (generation.prompt_token_ids.empty()) std::abort();
    if (generation.params.max_tokens < 0) std::abort();
    for (const quire::TokenId id : generation.prompt_token_ids) {
      if (id < 0 || id >= 256) std::abort();
    }
  }
  for (const char c : prepared.value().warning) {
    if (c < 0x20 || c > 0x7e) std::abort();
  }
  return 0;
}
