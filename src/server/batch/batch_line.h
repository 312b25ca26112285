// These functions read and write the lines of batch files in OpenAI's format: a request, and its
// answer.
//
//   {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {…}}
//   {"id": "batch_req_…", "custom_id": "a",
//    "response": {"status_code": 200, "request_id": "…", "body": {…}}, "error": null}
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

// Reads a line. kInvalidArgument says what was expected and what the line has. `custom_id` of `out`
// is set when the line has one, even if the rest of the line is wrong.
Status parse_batch_request(std::string_view line, BatchRequest& out);

// Returns the line of an answer, with a line break at its end.
std::string batch_answer(const BatchRequest& request, int64_t line_number,
                         const HttpResponse& response);
// Returns the line for a request that could not be read.
std::string batch_error(const BatchRequest& request, int64_t line_number, std::string_view message);

// Returns the custom_id of an answer whose request need not be sent again, that is, an answer with
// status 200. For other lines it returns an empty string.
std::string answered_id(std::string_view line);
// Returns the custom_id of an answer with another status, or an empty string when there is none.
std::string refused_id(std::string_view line);

// Returns whether the requests of a batch may name this URL. The next function lists all such URLs,
// for error messages.
bool is_batch_url(std::string_view url);
std::string batch_urls();

}  // namespace quire::server
