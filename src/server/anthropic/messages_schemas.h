// These are the schemas of the answers of Anthropic's routes, for /openapi.json.
#pragma once

#include <string_view>

namespace quire::server {

inline constexpr std::string_view kMessagesSchemas = R"json({
"MessagesError": {"type":"object","required":["type","error"],"properties":{"type":{"type":"string","const":"error"},
  "error":{"type":"object","required":["type","message"],"properties":{"type":{"type":"string"},"message":{"type":"string"}}}}},
"MessagesUsage": {"type":"object","required":["input_tokens","output_tokens"],"properties":{
  "input_tokens":{"type":"integer","description":"Of the prompt, without what the prefix cache gave."},
  "cache_creation_input_tokens":{"type":"integer"},"cache_read_input_tokens":{"type":"integer"},"output_tokens":{"type":"integer"},
  "output_tokens_details":{"type":"object","properties":{"thinking_tokens":{"type":"integer"}}}}},
"MessagesBlock": {"type":"object","required":["type"],"properties":{"type":{"type":"string","enum":["text","thinking","tool_use"]},
  "text":{"type":"string"},"thinking":{"type":"string"},"signature":{"type":"string"},"id":{"type":"string"},"name":{"type":"string"},
  "input":{"type":"object"}}},
"MessagesResponse": {"type":"object","required":["id","type","role","model","content","stop_reason","stop_sequence","usage"],"properties":{
  "id":{"type":"string"},"type":{"type":"string","const":"message"},"role":{"type":"string","const":"assistant"},"model":{"type":"string"},
  "content":{"type":"array","items":{"$ref":"#/components/schemas/MessagesBlock"}},
  "stop_reason":{"type":"string","enum":["end_turn","max_tokens","stop_sequence","tool_use","model_context_window_exceeded"]},
  "stop_sequence":{"type":["string","null"]},"usage":{"$ref":"#/components/schemas/MessagesUsage"}}},
"MessagesCount": {"type":"object","required":["input_tokens"],"properties":{"input_tokens":{"type":"integer"}}}
})json";

inline constexpr std::string_view kMessagesStream =
    "Server-sent events message_start, content_block_start, content_block_delta, "
    "content_block_stop, message_delta and message_stop, or error; each one's data is an object "
    "whose type is the event's name.";

}  // namespace quire::server
