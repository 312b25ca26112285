// The input is a config.json of any family. It is parsed, checked, and converted to a decoder spec
// and a KV layout.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "models/model_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = quire::parse_model_config(text);
  if (!config.ok()) return 0;
  const auto spec = quire::make_decoder_spec(*config, config->max_model_len(), quire::DType::kBF16);
  if (spec.ok() && spec->num_parameters() <= 0) __builtin_trap();
  return 0;
}
