// These classes turn the chunks of a chat into the events of Anthropic's Messages API, and the
// events into the whole message.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire::server {

// The parts of a message that are known before its first token.
struct MessageShape {
  std::string id;
  std::string model;
  int64_t max_tokens = 0;     // as the client asked
  int64_t max_model_len = 0;  // prompt and answer together
};

using MessageEvents = std::vector<boost::json::object>;

// MessageEventBuilder turns chunks into events. It opens and closes content blocks, one at a time.
class MessageEventBuilder {
 public:
  explicit MessageEventBuilder(MessageShape shape) : shape_(std::move(shape)) {}

  // Takes a chunk of one choice, which carries the usage so far.
  void add(const boost::json::object& chunk, MessageEvents& out);
  void finish(MessageEvents& out);

 private:
  enum class Block : uint8_t { kNone, kText, kThinking, kToolUse };

  void add_delta(const boost::json::object& delta, MessageEvents& out);
  void add_call(const boost::json::object& call, MessageEvents& out);
  void open(Block kind, boost::json::object block, MessageEvents& out);
  void close(MessageEvents& out);
  void push_delta(boost::json::object delta, MessageEvents& out) const;
  boost::json::object start_event() const;
  boost::json::object usage() const;
  std::string_view stop_reason() const;

  const MessageShape shape_;
  bool started_ = false;
  Block open_ = Block::kNone;
  int64_t num_blocks_ = 0;
  bool has_call_ = false;
  std::string finish_reason_;
  std::optional<std::string> stop_sequence_;
  int64_t prompt_tokens_ = 0, cached_tokens_ = 0, output_tokens_ = 0;
  std::optional<int64_t> thinking_tokens_;
};

// MessageFold puts the events together to the message, which is the answer without streaming.
class MessageFold {
 public:
  void add(boost::json::object event);
  boost::json::object finish() { return std::move(message_); }
  // Returns about how much memory the message takes so far.
  uint64_t held_bytes() const { return held_bytes_; }

 private:
  void add_delta(boost::json::object& block, boost::json::object& delta);

  boost::json::object message_;
  std::string input_;  // JSON of the tool_use block that is open
  uint64_t held_bytes_ = 0;
};

}  // namespace quire::server
