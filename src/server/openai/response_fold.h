// ResponseFold puts the chunks of a stream together to the answer that they stand for. It serves
// requests without streaming, and reads any OpenAI stream of chats or completions, of Quire or of
// other servers (tool calls, refusals and reasoning included).
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <map>
#include <string>

#include "base/result.h"
#include "server/openai/request_fields.h"

namespace quire::server {

class ResponseFold {
 public:
  explicit ResponseFold(Endpoint endpoint) : endpoint_(endpoint) {}
  // Adds a chunk. kInvalidArgument: it is no chunk, or it is the error event of a stream.
  Status add(boost::json::object chunk);
  // Returns about how many bytes the answer takes so far.
  uint64_t held_bytes() const { return held_bytes_; }
  // Returns the body of the answer without streaming, with every field that the API prints. Choices
  // are sorted by their index.
  boost::json::object finish();

 private:
  struct Choice {
    std::string text;  // content, or completions' text
    bool has_content = false;
    std::string role = "assistant";
    std::string refusal, reasoning;
    bool has_refusal = false, has_reasoning = false;
    std::map<int64_t, boost::json::object> tool_calls;
    boost::json::value logprobs;
    boost::json::value finish_reason, stop_reason;
    boost::json::array token_ids;
    bool has_token_ids = false;
    boost::json::value prompt_token_ids, prompt_logprobs, prompt_text;
  };

  Status add_choice(boost::json::object& choice);
  static void add_delta(Choice& into, boost::json::object& delta);
  static void add_tool_calls(Choice& into, boost::json::array& calls);
  static void merge_logprobs(Choice& into, boost::json::object& logprobs);
  boost::json::object chat_choice(Choice& choice) const;
  boost::json::object completion_choice(Choice& choice) const;

  Endpoint endpoint_;
  boost::json::value id_, created_, model_, usage_, metrics_, system_fingerprint_, service_tier_;
  boost::json::value prompt_token_ids_, prompt_logprobs_, prompt_text_, kv_transfer_params_;
  std::map<int64_t, Choice> choices_;
  uint64_t held_bytes_ = 0;
};

}  // namespace quire::server
