// These are the schemas of the answers of the Responses API, for /openapi.json.
#pragma once

#include <string_view>

namespace quire::server {

inline constexpr std::string_view kResponsesSchemas = R"json({
"ResponsesItem": {"type":"object","required":["id","type","status"],"properties":{"id":{"type":"string"},
  "type":{"type":"string","enum":["reasoning","message","function_call"]},"status":{"type":"string","enum":["in_progress","completed","incomplete"]},
  "role":{"type":"string"},"content":{"type":"array","items":{"type":"object","properties":{"type":{"type":"string","enum":["output_text","reasoning_text"]},
  "text":{"type":"string"},"annotations":{"type":"array"},"logprobs":{"type":"array"}}}},"summary":{"type":"array"},
  "call_id":{"type":"string"},"name":{"type":"string"},"arguments":{"type":"string"}}},
"ResponsesResponse": {"type":"object","required":["id","object","created_at","status","model","output"],"properties":{"id":{"type":"string"},
  "object":{"type":"string","const":"response"},"created_at":{"type":"integer"},
  "status":{"type":"string","enum":["queued","in_progress","completed","incomplete","failed","cancelled"]},
  "background":{"type":["boolean","null"]},"completed_at":{"type":["integer","null"]},
  "error":{"type":["object","null"],"properties":{"code":{"type":"string"},"message":{"type":"string"}}},
  "incomplete_details":{"type":["object","null"],"properties":{"reason":{"type":"string"}}},"model":{"type":"string"},
  "output":{"type":"array","items":{"$ref":"#/components/schemas/ResponsesItem"}},"previous_response_id":{"type":["string","null"]},
  "usage":{"type":["object","null"],"properties":{"input_tokens":{"type":"integer"},
  "input_tokens_details":{"type":"object","properties":{"cached_tokens":{"type":"integer"},"cache_write_tokens":{"type":"integer"}}},
  "output_tokens":{"type":"integer"},"output_tokens_details":{"type":"object","properties":{"reasoning_tokens":{"type":"integer"}}},
  "total_tokens":{"type":"integer"}}}}},
"ResponsesCount": {"type":"object","required":["object","input_tokens"],"properties":{"object":{"type":"string","const":"response.input_tokens"},
  "input_tokens":{"type":"integer"}}}
})json";

inline constexpr std::string_view kResponsesStream =
    "Server-sent events from response.created to one of response.completed, response.incomplete "
    "and response.failed; each one's data is an object whose type is the event's name, with a "
    "sequence_number.";

}  // namespace quire::server
