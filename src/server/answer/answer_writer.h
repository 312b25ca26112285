// An AnswerWriter turns the chunks of an OpenAI stream into the answer of one API. Every API has
// its own writers, for streams and for whole answers, and all of them take the same chunks.
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

// Each writer writes one answer, on the strand of its call.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  // Returns whether the client gets the answer piece by piece.
  virtual bool streams() const = 0;
  virtual std::string_view content_type() const = 0;
  // Appends what a stream sends before the first chunk.
  virtual void begin(std::string& out) { static_cast<void>(out); }
  // Takes the next chunk. The text that a client of a stream gets for it is appended to `out`.
  virtual Status add(boost::json::object chunk, std::string& out) = 0;
  // Writes what follows the last chunk: the end of the stream, or the body of the answer in one
  // piece.
  virtual void finish(std::string& out) = 0;
  // Ends a stream that has begun and cannot go on.
  virtual void break_off(const ApiError& error, std::string& out) = 0;
  // Returns the answer of a call that failed before anything was sent.
  virtual HttpResponse refuse(const ApiError& error) const = 0;
  // Returns about how many bytes the writer holds until finish(), which is close to 0 for a stream.
  virtual uint64_t held_bytes() const = 0;
};

}  // namespace quire::server
