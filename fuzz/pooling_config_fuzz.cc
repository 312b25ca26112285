// The input is a config.json, a zero byte and a modules.json of sentence-transformers. How the
// model pools prompts is read from both, and each parser also gets the second text alone.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "models/pooling_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const size_t zero = std::min(text.find('\0'), size);
  const std::string config_text = text.substr(0, zero);
  const std::string modules = zero < size ? text.substr(zero + 1) : std::string();
  (void)quire::parse_sentence_modules(modules);
  (void)quire::parse_pooling_kind(modules, "1_Pooling/config.json");
  auto config = quire::parse_model_config(config_text);
  if (!config.ok() || config_text.empty() || modules.empty()) return 0;
  const auto files =
      quire::ModelFiles::from_memory({{"config.json", std::as_bytes(std::span(config_text))},
                                      {"modules.json", std::as_bytes(std::span(modules))}});
  if (!quire::read_pooling(files, *config).ok()) return 0;
  if (config->pooling.any() && config->pooling.num_columns <= 0) __builtin_trap();
  return 0;
}
