// These functions divide a request into two legs: one server computes the prompt (prefill), and
// another one continues from its KV (decode), in vLLM's protocol of kv_transfer_params.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/http/http_types.h"

namespace quire::gateway {

// Returns the body of the first leg: the same prompt, one output token, and a request to hand over
// the KV. Returns nullopt when the request needs one leg: it asks for no output, has several
// prompts, wants the prompt's log-probabilities, or comes from a first leg already.
std::optional<std::string> prefill_body(const server::HttpRequest& request);
// Returns the body of the second leg. It puts the KV handover of the first leg's answer in front of
// the client's members. When the answer has no handover, it returns the client's body unchanged.
std::string decode_body(std::string_view body, std::string_view prefill_answer);

}  // namespace quire::gateway
