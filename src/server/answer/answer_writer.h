// How a generation reaches its client: every API writes its streams and its whole answers in its
// own way, and all of them take the same chunks, those of an OpenAI stream.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/http/api_error.h"
#include "server/http/http_types.h"

namespace quire::server {

inline constexpr std::string_view kEventStream = "text/event-stream; charset=utf-8";

// A writer writes one answer. It is used on the strand of its call.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  // Whether the client gets the answer piece by piece.
  virtual bool streams() const = 0;
  virtual std::string_view content_type() const = 0;
  // Of a stream: what goes before the first chunk.
  virtual void begin(std::string& out) { static_cast<void>(out); }
  // Takes the next chunk. What a client who reads a stream gets of it goes to the end of `out`.
  virtual Status add(boost::json::object chunk, std::string& out) = 0;
  // Writes what follows the last chunk: the end of the stream, or the body of the answer in one
  // piece.
  virtual void finish(std::string& out) = 0;
  // Ends a stream that has begun and cannot go on.
  virtual void break_off(const ApiError& error, std::string& out) = 0;
  // Of an answer of which nothing has been sent.
  virtual HttpResponse refuse(const ApiError& error) const = 0;
  // Returns about how many bytes the answer takes until finish(); for a stream next to nothing.
  virtual uint64_t held_bytes() const = 0;
};

}  // namespace quire::server
