// ReplySink turns what the readers find in a reply into events.
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
    kCallBegin,  // text: the whole name of the function
    kArguments,  // text: a piece of JSON; all pieces of a call form one object
    kCallEnd,
  };
  Kind kind = Kind::kContent;
  int32_t call_index = 0;  // in call events, from 0
  std::string text;
  std::string call_id;       // in kCallBegin: the id that the model wrote; empty: none
  bool is_complete = false;  // in kCallEnd: false when the reply was cut or is malformed
};

// Readers of calls put their results here. All text comes encoded (mark_table.h) and is decoded
// here. At most one call is open.
class ReplySink {
 public:
  // `encoder` is the encoder of the same reply. All arguments must outlive the sink.
  ReplySink(const MarkTable& marks, const ToolTypes& tools, ReplyEncoder& encoder, bool reads_calls)
      : marks_(marks), tools_(tools), encoder_(encoder), reads_calls_(reads_calls) {}

  // Sets where events are put during one feed.
  void set_out(std::vector<ReplyEvent>* out) { out_ = out; }
  const ToolTypes& tools() const { return tools_; }
  bool reads_calls() const { return reads_calls_; }

  // Commits the text before the cursor as content.
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
  int32_t num_calls_ = 0;  // number of calls that have begun
  bool call_is_open_ = false;
  int64_t num_reasoning_tokens_ = 0;
};

}  // namespace quire
