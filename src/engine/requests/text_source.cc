#include "engine/requests/text_source.h"

#include <memory>
#include <utility>

namespace quire {
namespace {

Status check(const TextSourceInfo& model, const GenerationRequest& request) {
  const auto length = std::ssize(request.prompt_token_ids);
  if (length < 1 || length > model.max_tokens) {
    return invalid_argument("prompt: expected 1 to {} tokens, as the model's encoder reads, got {}",
                            model.max_tokens, length);
  }
  if (request.params.prompt_logprobs) {
    return invalid_argument(
        "prompt_logprobs: expected none, since the model's encoder reads the prompt");
  }
  if (request.hands_over_kv || request.handover != nullptr)
    return invalid_argument("kv_transfer_params: expected none for a model with an encoder");
  return {};
}

// The key has all of the text's tokens, so equal keys mean equal texts.
std::string key_of(const std::vector<TokenId>& text) {
  std::string key = "text ";
  key.append(reinterpret_cast<const char*>(text.data()), text.size() * sizeof(TokenId));
  return key;
}

}  // namespace

Status make_source_of_prompt(const TextSourceInfo& model, GenerationRequest& request) {
  if (!request.media.empty()) return {};
  QUIRE_RETURN_IF_ERROR(check(model, request));
  auto source = std::make_shared<MediaItem>();
  source->text = std::exchange(request.prompt_token_ids, model.start);
  source->key = key_of(source->text);
  constexpr int32_t kBlock = TextSourceInfo::kBlockSize;
  const auto length = static_cast<int32_t>(source->text.size());
  source->num_embeddings = (length + kBlock - 1) / kBlock * kBlock;
  request.media = {MediaSpan::of_source(std::move(source))};
  return {};
}

}  // namespace quire
