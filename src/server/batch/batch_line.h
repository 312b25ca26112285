// Lines of batch files as OpenAI has them: a request, and what came of it.
//
//   {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {…}}
//   {"id": "batch_req_…", "custom_id": "a", "response": {"status_code": 200, "request_id": "…", "body": {…}}, "error": null}
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/http/http_types.h"

namespace quire::server {

struct BatchRequest {
  std::string custom_id;
  std::string url;
  std::string body;  // JSON
};

// Reads a line. kInvalidArgument says what was expected and what the line holds. `custom_id` of
// `out` is set where the line has one, whatever else is wrong.
Status parse_batch_request(std::string_view line, BatchRequest& out);

// Returns a line with a line break at its end.
std::string batch_answer(const BatchRequest& request, int64_t line_number,
                         const HttpResponse& response);
// Of a line that is no request.
std::string batch_error(const BatchRequest& request, int64_t line_number, std::string_view message);

// Returns the custom_id of a line of answers that need not be asked again, which is one with status
// 200, or an empty string for other lines.
std::string answered_id(std::string_view line);
// Returns the custom_id of a line of answers with another status, or an empty string when it has
// none.
std::string refused_id(std::string_view line);

// Whether requests of a batch may go there, and all such places for a message.
bool is_batch_url(std::string_view url);
std::string batch_urls();

}  // namespace quire::server
