// A request in two legs: one server computes the prompt (prefill), another one goes on from its KV
// (decode), in vLLM's protocol of kv_transfer_params.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/http/http_types.h"

namespace quire::gateway {

// Returns the body of the first leg: the same prompt, one token, and the KV to be handed over.
// Returns nullopt where one leg is the better way, because the request asks for no text, has
// several prompts, wants the prompt's log-probabilities, or has been through a first leg already.
std::optional<std::string> prefill_body(const server::HttpRequest& request);
// Returns the body of the second leg: what the first one's answer hands over, before all that the
// client says, or the client's own body where it hands over nothing.
std::string decode_body(std::string_view body, std::string_view prefill_answer);

}  // namespace quire::gateway
