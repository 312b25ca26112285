#include "server/openai/chunk_writer.h"

#include <boost/json/serialize.hpp>
#include <utility>

#include "server/http/sse.h"

namespace quire::server {

namespace json = boost::json;

std::string_view ChunkWriter::content_type() const {
  return streams_ ? kEventStream : std::string_view("application/json");
}

Status ChunkWriter::add(json::object chunk, std::string& out) {
  if (!streams_) return fold_.add(std::move(chunk));
  out += sse_event(json::serialize(chunk));
  return {};
}

void ChunkWriter::finish(std::string& out) {
  out += streams_ ? std::string(kSseDone) : json::serialize(fold_.finish());
}

void ChunkWriter::break_off(const ApiError& error, std::string& out) {
  out += sse_event(error_body(error));
  out += kSseDone;
}

}  // namespace quire::server
