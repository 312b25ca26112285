// This file writes server-sent events, and reads them from input that is cut anywhere.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire::server {

inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";

// Returns "data: <json>
//
// ". `json` has no line break.
std::string sse_event(std::string_view json);
// Returns the same with a name before it: "event: <name>
// ".
std::string sse_event(std::string_view name, std::string_view json);

// SseReader returns the data of each event. Comments and other fields are dropped; LF, CR and CRLF
// end lines. One thread may use it.
class SseReader {
 public:
  // It holds at most max_event_bytes. After a longer event feed() returns false, then and always.
  explicit SseReader(size_t max_event_bytes = 16 * 1024 * 1024) : max_bytes_(max_event_bytes) {}
  bool feed(std::string_view bytes);
  // Returns the data of the next complete event; nullopt: more bytes are needed.
  std::optional<std::string> next();

 private:
  void end_line();

  size_t max_bytes_;
  std::string line_;
  std::string data_;
  bool has_data_ = false;
  bool after_cr_ = false;
  bool failed_ = false;
  std::vector<std::string> events_;
  size_t read_ = 0;
};

}  // namespace quire::server
