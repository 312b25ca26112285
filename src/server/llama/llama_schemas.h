// These are the schemas of the requests and answers of llama.cpp's routes, for /openapi.json.
#pragma once

#include <string_view>

namespace quire::server {

inline constexpr std::string_view kLlamaSchemas = R"json({
"LlamaCompletionResponse": {"type":"object","required":["content","stop"],"properties":{"index":{"type":"integer"},"content":{"type":"string"},
  "tokens":{"type":"array","items":{"type":"integer"}},"id_slot":{"type":"integer"},"stop":{"type":"boolean"},"model":{"type":"string"},
  "tokens_predicted":{"type":"integer"},"tokens_evaluated":{"type":"integer"},"generation_settings":{"type":"object"},"prompt":{"type":"string"},
  "has_new_line":{"type":"boolean"},"truncated":{"type":"boolean"},"stop_type":{"type":"string","enum":["none","eos","limit","word"]},
  "stopping_word":{"type":"string"},"tokens_cached":{"type":"integer"},"timings":{"type":"object"}}},
"LlamaInfillRequest": {"type":"object","properties":{"input_prefix":{"type":"string"},"input_suffix":{"type":"string"},"prompt":{"type":"string"},
  "input_extra":{"type":"array","items":{"type":"object","required":["text"],"properties":{"filename":{"type":"string"},"text":{"type":"string"}}}}}},
"LlamaProps": {"type":"object","properties":{"default_generation_settings":{"type":"object"},"total_slots":{"type":"integer"},
  "model_alias":{"type":"string"},"model_path":{"type":"string"},"modalities":{"type":"object"},"build_info":{"type":"string"}}},
"LlamaSlots": {"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"},"n_ctx":{"type":"integer"},"is_processing":{"type":"boolean"}}}}
})json";

inline constexpr std::string_view kLlamaStream =
    "Server-sent events. Each is \"data: \" and a JSON object; the last has \"stop\": true.";

}  // namespace quire::server
