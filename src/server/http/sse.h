// Server-sent events: the writer's one line, and a reader that does not care how its input is cut.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire::server {

inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";

// "data: <json>\n\n". `json` has no line break.
std::string sse_event(std::string_view json);
// The same with a name before it: "event: <name>\n".
std::string sse_event(std::string_view name, std::string_view json);

// Gives the data of each event; comments and other fields are dropped. LF, CR and CRLF end lines.
// One thread may use it.
class SseReader {
 public:
  // At most max_event_bytes are held; a longer event makes feed() return false, for good.
  explicit SseReader(size_t max_event_bytes = 16 * 1024 * 1024) : max_bytes_(max_event_bytes) {}
  bool feed(std::string_view bytes);
  // The data of the next whole event.
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
