#include <array>
#include <string>

#include "models/family.h"

namespace quire {

std::span<const Family* const> all_families() {
  static const std::array families = {
      &llama_family(), &mistral_family(), &qwen2_family(),  &qwen3_family(),
      &phi3_family(),  &gemma2_family(),  &gemma3_family(), &gpt2_family(),
  };
  return families;
}

const Family* find_family(std::string_view model_type) {
  for (const Family* family : all_families()) {
    for (const std::string_view known : family->model_types) {
      if (known == model_type) return family;
    }
  }
  return nullptr;
}

// Of two that share an architecture the first: Mistral's files say llama.
const Family* find_gguf_family(std::string_view architecture) {
  for (const Family* family : all_families()) {
    if (!architecture.empty() && family->gguf_architecture == architecture) return family;
  }
  return nullptr;
}

std::string known_model_types() {
  std::string list;
  for (const Family* family : all_families()) {
    for (const std::string_view known : family->model_types) {
      if (!list.empty()) list += ", ";
      list += known;
    }
  }
  return list;
}

}  // namespace quire
