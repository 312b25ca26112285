// The input is the config.json and generation_config.json of a speech recognition model, with a
// zero byte between them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "models/speech/speech_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(text.find('\0'), text.size());
  const std::string_view config = text.substr(0, end);
  (void)quire::parse_speech(config);
  quire::DecoderSpec decoder;
  decoder.layers.resize(2);
  decoder.cross.num_heads = 4;
  const quire::Status status =
      quire::parse_alignment(config, text.substr(std::min(end + 1, text.size())), decoder);
  for (const quire::CrossSpec::AlignmentHead head : decoder.cross.alignment_heads) {
    if (head.layer < 0 || head.layer >= 2 || head.head < 0 || head.head >= 4) __builtin_trap();
  }
  if (status.ok() && decoder.cross.alignment_filter_rows % 2 == 0) __builtin_trap();
  return 0;
}
