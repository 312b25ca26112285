// The input is a quantization_config. The result must be a configuration or an error, and matching
// patterns must end.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "weights/quant/quant_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = quire::QuantConfig::parse(text, "input");
  if (!config.ok()) {
    if (config.status().message().find('\n') != std::string::npos) std::abort();
    return 0;
  }
  for (const char* module : {"lm_head", "model.layers.0.self_attn.q_proj", ""}) {
    const quire::QuantScheme* scheme = config->scheme(module);
    if (scheme != nullptr && (scheme->bits < 1 || scheme->bits > 8)) std::abort();
  }
  return static_cast<int>(config->description().empty());
}
