// The input is the body of a request, after a byte that says through which door it comes; it goes
// from bytes to what the engine would run.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "server/anthropic/messages_door.h"
#include "server/responses/response_store.h"
#include "server/responses/responses_door.h"

namespace {

using quire::TokenId;
using quire::server::Door;

class LetterCodec final : public quire::TextCodec {
 public:
  quire::Result<std::vector<TokenId>> encode(std::string_view text, bool) const override {
    std::vector<TokenId> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  std::string decode(std::span<const TokenId> ids, bool) const override {
    return std::string(ids.size(), 'x');
  }
  std::string token_bytes(TokenId) const override { return "x"; }
  std::string token_piece(TokenId) const override { return "x"; }
  int32_t vocab_size() const override { return 256; }
};

quire::ServedModel model() {
  quire::ServedModel served;
  served.names = {"m"};
  served.codec = std::make_shared<LetterCodec>();
  served.max_model_len = 4096;
  served.render_chat = [](const quire::ChatRenderRequest& request) -> quire::Result<std::string> {
    return std::string(request.messages.size(), 'm');
  };
  return served;
}

void check_refusal(const quire::server::ApiError& error, const Door& door) {
  if (error.status < 400 || error.message.empty()) std::abort();
  if (door.refuse(error).body.empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const quire::ServedModel served = model();
  static const quire::ServerOptions options;
  static const Door* const doors[] = {&quire::server::kMessagesDoor,
                                      &quire::server::kResponsesDoor};
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
