#include "server/anthropic/message_writer.h"

#include <boost/json/serialize.hpp>
#include <utility>

#include "server/anthropic/messages_error.h"
#include "server/http/sse.h"

namespace quire::server {

namespace json = boost::json;

std::string_view MessageWriter::content_type() const {
  return streams_ ? kEventStream : std::string_view("application/json");
}

void MessageWriter::write(MessageEvents events, std::string& out) {
  for (json::object& event : events) {
    if (streams_) {
      out += sse_event(event.at("type").as_string(), json::serialize(event));
    } else {
      fold_.add(std::move(event));
    }
  }
}

Status MessageWriter::add(json::object chunk, std::string& out) {
  MessageEvents events;
  events_.add(chunk, events);
  write(std::move(events), out);
  return {};
}

void MessageWriter::finish(std::string& out) {
  MessageEvents events;
  events_.finish(events);
  write(std::move(events), out);
  if (!streams_) out += json::serialize(fold_.finish());
}

void MessageWriter::break_off(const ApiError& error, std::string& out) {
  out += sse_event("error", messages_error_body(error));
}

HttpResponse MessageWriter::refuse(const ApiError& error) const {
  return messages_error_response(error);
}

}  // namespace quire::server
