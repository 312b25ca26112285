// The input is a config.json, a zero byte and a model.safetensors of a model that drafts from
// hidden states: EAGLE, EAGLE-3 or Medusa, beside a served model with a vocabulary of 8 tokens.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "models/drafting/draft_head.h"
#include "models/drafting/medusa_checkpoint.h"

namespace {

using quire::ModelFiles;

std::string served_tensors() {
  std::string header =
      R"({"model.embed_tokens.weight":{"dtype":"F32","shape":[8,4],"data_offsets":[0,128]},)"
      R"("lm_head.weight":{"dtype":"F32","shape":[8,4],"data_offsets":[128,256]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const uint64_t size = header.size();
  std::string file(sizeof(size), '\0');
  std::memcpy(file.data(), &size, sizeof(size));
  return file + header + std::string(256, '\0');
}

ModelFiles files_of(const std::string& config, const std::string& tensors) {
  return ModelFiles::from_memory({{"config.json", std::as_bytes(std::span(config))},
                                  {"model.safetensors", std::as_bytes(std::span(tensors))}});
}

const quire::DraftTarget& served() {
  static const std::string config =
      R"({"model_type":"llama","vocab_size":8,"hidden_size":4,"intermediate_size":8,)"
      R"("num_hidden_layers":3,"num_attention_heads":1,"max_position_embeddings":64})";
  static const std::string tensors = served_tensors();
  static const quire::DraftTarget target{
      .files = std::make_shared<const ModelFiles>(files_of(config, tensors)),
      .config = *quire::parse_model_config(config)};
  return target;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const size_t zero = std::min(text.find('\0'), size);
  const std::string config = text.substr(0, zero);
  const std::string tensors = zero < size ? text.substr(zero + 1) : std::string();
  if (config.empty() || tensors.empty()) return 0;
  const auto files = std::make_shared<const ModelFiles>(files_of(config, tensors));
  for (const auto kind : {quire::DraftHeadKind::kEagle, quire::DraftHeadKind::kEagle3}) {
    const auto head = quire::read_draft_head(kind, files, served());
    if (!head.ok()) continue;
    for (const quire::TokenId token : (*head)->token_map) {
      if (token < 0 || token >= 8) __builtin_trap();
    }
    for (const int32_t layer : (*head)->layers) {
      if (layer < 0 || layer > 3) __builtin_trap();
    }
  }
  const auto medusa = quire::read_medusa(*files, 4, 8);
  if (medusa.ok() && medusa->spec.num_heads < 1) __builtin_trap();
  return 0;
}
