// Reading calls out of a reply, one style each.
#pragma once

#include <cstdint>
#include <memory>

#include "chat/dialects/dialect.h"
#include "chat/reply/json_scanner.h"
#include "chat/reply/reply_input.h"
#include "chat/reply/reply_sink.h"

namespace quire {

enum class ReadStep : uint8_t {
  kMore,    // the text so far does not say how to go on
  kAgain,   // something was read
  kDone,    // the calls are over: content goes on at the cursor
  kNoCall,  // no call, or a broken one: from the last commit on it is content
};

// Reads one run of calls. It stands at an opening mark, or at a character that begins replies of
// calls. A call begins in the sink as soon as its name is known and its arguments have begun well;
// then the reader commits. Steps depend on the text alone, not on how it was cut. One thread may
// use it.
class CallReader {
 public:
  virtual ~CallReader() = default;
  virtual ReadStep step(ReplyInput& in, ReplySink& sink) = 0;
};

// `dialect`, encoded, outlives the reader.
std::unique_ptr<CallReader> make_call_reader(const Dialect& dialect);

std::unique_ptr<CallReader> make_reader(const Dialect& dialect, const JsonCallStyle& style);
std::unique_ptr<CallReader> make_reader(const Dialect& dialect, const HeadedCallStyle& style);
std::unique_ptr<CallReader> make_reader(const Dialect& dialect, const TaggedCallStyle& style);
std::unique_ptr<CallReader> make_reader(const Dialect& dialect, const PythonCallStyle& style);
std::unique_ptr<CallReader> make_reader(const Dialect& dialect, const GemmaCallStyle& style);
std::unique_ptr<CallReader> make_reader(const Dialect& dialect, const HarmonyStyle& style);

inline constexpr size_t kMaxNameBytes = 256;  // of a function or a parameter

inline bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

// Skips the opening mark that stands at the cursor, where one does.
ReadStep skip_opening(const Dialect& dialect, ReplyInput& in);

// ArgumentsReader passes the arguments of one call through, as JSON.
class ArgumentsReader {
 public:
  // Whether an object begins `text`: a brace and then a quote or a brace.
  static Match begins(std::string_view text, bool ended);
  // Sends on what has come. kAgain: the object is complete.
  ReadStep step(ReplyInput& in, ReplySink& sink);
  // Does the same into `out`, for a call whose name has not come yet.
  ReadStep step(ReplyInput& in, std::string& out);

 private:
  JsonScanner scanner_;
};

}  // namespace quire
