// What a reply turns out to say, piece by piece.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "chat/reply/mark_table.h"
#include "chat/reply/reply_encoder.h"
#include "chat/reply/reply_input.h"
#include "chat/reply/tool_types.h"

namespace quire {

struct ReplyEvent {
  enum class Kind : uint8_t {
    kContent,
    kReasoning,
    kCallBegin,  // text: the function's name, whole
    kArguments,  // text: the next piece of JSON; the pieces of a call make one object
    kCallEnd,
  };
  Kind kind = Kind::kContent;
  int32_t call_index = 0;  // of call events, from 0
  std::string text;
  std::string call_id;       // of kCallBegin: the id that the model wrote; empty: none
  bool is_complete = false;  // of kCallEnd: false when the reply was cut or went wrong inside
};

// Where readers of calls put what they find. All text comes encoded (mark_table.h) and is decoded
// here. At most one call is open.
class ReplySink {
 public:
  // `encoder` is the one that the reply comes through; all outlive the sink.
  ReplySink(const MarkTable& marks, const ToolTypes& tools, ReplyEncoder& encoder, bool reads_calls)
      : marks_(marks), tools_(tools), encoder_(encoder), reads_calls_(reads_calls) {}

  // Where events go during one feed.
  void set_out(std::vector<ReplyEvent>* out) { out_ = out; }
  const ToolTypes& tools() const { return tools_; }
  bool reads_calls() const { return reads_calls_; }

  // Commits what stands before the cursor, as text of the reply.
  void content(ReplyInput& in);
  void reasoning(ReplyInput& in);
  void begin_call(std::string_view name, std::string_view id = {});
  void arguments(std::string_view json);
  void end_call(bool is_complete);

  bool call_is_open() const { return call_is_open_; }
  int64_t num_reasoning_tokens() const { return num_reasoning_tokens_; }

 private:
  void add_text(ReplyEvent::Kind kind, std::string_view text);

  const MarkTable& marks_;
  const ToolTypes& tools_;
  ReplyEncoder& encoder_;
  const bool reads_calls_;
  std::vector<ReplyEvent>* out_ = nullptr;
  int32_t num_calls_ = 0;  // begun
  bool call_is_open_ = false;
  int64_t num_reasoning_tokens_ = 0;
};

}  // namespace quire
