// These are the schemas of the requests and answers of Ollama's routes, for /openapi.json.
#pragma once

#include <string_view>

namespace quire::server {

inline constexpr std::string_view kOllamaSchemas = R"json({
"OllamaError": {"type":"object","required":["error"],"properties":{"error":{"type":"string"}}},
"OllamaChatResponse": {"type":"object","required":["model","created_at","message","done"],"properties":{"model":{"type":"string"},"created_at":{"type":"string"},
  "message":{"type":"object","required":["role","content"],"properties":{"role":{"type":"string"},"content":{"type":"string"},"thinking":{"type":"string"},
  "tool_calls":{"type":"array","items":{"type":"object"}}}},"done":{"type":"boolean"},"done_reason":{"type":"string","enum":["stop","length"]},
  "total_duration":{"type":"integer","description":"Nanoseconds, as all durations."},"load_duration":{"type":"integer"},"prompt_eval_count":{"type":"integer"},
  "prompt_eval_duration":{"type":"integer"},"eval_count":{"type":"integer"},"eval_duration":{"type":"integer"}}},
"OllamaGenerateResponse": {"type":"object","required":["model","created_at","response","done"],"properties":{"model":{"type":"string"},"created_at":{"type":"string"},
  "response":{"type":"string"},"thinking":{"type":"string"},"done":{"type":"boolean"},"done_reason":{"type":"string"},"total_duration":{"type":"integer"},
  "load_duration":{"type":"integer"},"prompt_eval_count":{"type":"integer"},"prompt_eval_duration":{"type":"integer"},"eval_count":{"type":"integer"},
  "eval_duration":{"type":"integer"}}},
"OllamaEmbedRequest": {"type":"object","required":["input"],"properties":{"model":{"type":["string","null"]},"input":{"$ref":"#/components/schemas/TextInput"},
  "truncate":{"type":["boolean","null"]},"dimensions":{"type":["integer","null"],"minimum":1}}},
"OllamaEmbedResponse": {"type":"object","required":["model","embeddings"],"properties":{"model":{"type":"string"},
  "embeddings":{"type":"array","items":{"type":"array","items":{"type":"number"}}},"prompt_eval_count":{"type":"integer"}}},
"OllamaModels": {"type":"object","required":["models"],"properties":{"models":{"type":"array","items":{"type":"object","required":["name","model"],
  "properties":{"name":{"type":"string"},"model":{"type":"string"}}}}}},
"OllamaShowRequest": {"type":"object","required":["model"],"properties":{"model":{"type":"string"}}},
"OllamaModel": {"type":"object","required":["details","model_info","capabilities"],"properties":{"details":{"type":"object"},"model_info":{"type":"object"},
  "capabilities":{"type":"array","items":{"type":"string"}}}}
})json";

inline constexpr std::string_view kOllamaStream =
    "One JSON object a line; the last has \"done\": true. An error is an object with \"error\".";

}  // namespace quire::server
