#include "server/http/sse.h"

#include <utility>

namespace quire::server {

std::string sse_event(std::string_view json) {
  std::string event;
  event.reserve(json.size() + 8);
  event += "data: ";
  event += json;
  event += "\n\n";
  return event;
}

std::string sse_event(std::string_view name, std::string_view json) {
  std::string event = "event: ";
  event += name;
  event += '\n';
  return event + sse_event(json);
}

bool SseReader::feed(std::string_view bytes) {
  for (const char c : bytes) {
    if (failed_) return false;
    if (c == '\n' && std::exchange(after_cr_, false)) continue;  // the LF after a CR
    after_cr_ = c == '\r';
    if (c == '\n' || c == '\r') {
      end_line();
      continue;
    }
    line_.push_back(c);
    failed_ = line_.size() + data_.size() > max_bytes_;
  }
  return !failed_;
}

void SseReader::end_line() {
  if (line_.empty()) {
    if (has_data_) events_.push_back(std::move(data_));
    data_.clear();
    has_data_ = false;
    return;
  }
  const std::string line = std::exchange(line_, {});
  if (line.rfind("data", 0) != 0) return;
  std::string_view value = line;
  value.remove_prefix(4);
  if (!value.empty() && value.front() != ':') return;  // a field with a longer name
  if (!value.empty()) value.remove_prefix(1);
  if (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  if (has_data_) data_.push_back('\n');
  data_ += value;
  has_data_ = true;
}

std::optional<std::string> SseReader::next() {
  if (read_ == events_.size()) {
    events_.clear();
    read_ = 0;
    return std::nullopt;
  }
  return std::move(events_[read_++]);
}

}  // namespace quire::server
