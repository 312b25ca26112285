// The input is a line of a batch file, read as a request and as an answer of an earlier run.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "server/batch/batch_line.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  quire::server::BatchRequest request;
  const quire::Status status = quire::server::parse_batch_request(line, request);
  if (!status.ok()) (void)quire::server::batch_error(request, 1, status.message());
  (void)quire::server::batch_answer(request, 1, {.status = 200, .body = std::string(line)});
  (void)quire::server::answered_id(line);
  return 0;
}
