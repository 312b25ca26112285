// A CallReader reads tool calls from a reply. Each style of calls has its own.
#pragma once

#include <cstdint>
#include <memory>

#include "chat/dialects/dialect.h"
#include "chat/reply/json_scanner.h"
#include "chat/reply/reply_input.h"
#include "chat/reply/reply_sink.h"

namespace quire {

enum class ReadStep : uint8_t {
  kMore,    // more text is needed to go on
  kAgain,   // something was read
  kDone,    // the calls have ended: content follows at the cursor
  kNoCall,  // no call, or a broken one: text since the last commit is content
};

// Reads one run of calls, from an opening mark, or from a character with which a reply of calls may
// begin. A call begins in the sink as soon as its name is known and its arguments have begun
// correctly; the reader then commits. The steps depend on the text only, not on how it was cut. One
// thread may use it.
class CallReader {
 public:
  virtual ~CallReader() = default;
  virtual ReadStep step(ReplyInput& in, ReplySink& sink) = 0;
};

// `dialect` must have encoded patterns and must outlive the reader.
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

// Skips the opening mark at the cursor, if there is one.
ReadStep skip_opening(const Dialect& dialect, ReplyInput& in);

// ArgumentsReader passes on the arguments of one call as JSON.
class ArgumentsReader {
 public:
  // Returns whether `text` begins an object: a brace, then a quote or a closing brace.
  static Match begins(std::string_view text, bool ended);
  // Sends the arguments that have come. kAgain: the object is complete.
  ReadStep step(ReplyInput& in, ReplySink& sink);
  // Does the same into `out`, for a call whose name is not known yet.
  ReadStep step(ReplyInput& in, std::string& out);

 private:
  JsonScanner scanner_;
};

}  // namespace quire
