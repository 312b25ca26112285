// ChunkBuilder turns the engine's deltas into the chunks of the API, in the API's order. The
// streamed answer is these chunks; the answer in one piece is their fold (response_fold.h). There
// is no other path.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chat/reply_parser.h"
#include "engine/async_engine.h"
#include "server/openai/request_fields.h"
#include "server/openai/served_model.h"
#include "server/ranking/best_of.h"

namespace quire::server {

struct PromptInfo {
  std::vector<TokenId> token_ids;
  std::string text;  // as sent, or decoded when ids were sent
  std::vector<MediaSpan> media = {};
};

// How a chat answer is parsed.
struct ReplyShape {
  std::shared_ptr<const ReplySyntax> syntax;  // null: the whole text is content
  std::shared_ptr<const ToolTypes> tools;     // of the request; null: none
  bool reads_calls = false;
  bool shows_special_tokens = false;
  std::optional<bool> starts_in_reasoning;  // as the prompt's end shows
  bool include_reasoning = true;
  bool parallel_tool_calls = true;
  bool names_tool = false;        // tool_choice names a tool: finish_reason is "stop"
  int32_t num_earlier_calls = 0;  // in the conversation so far
};

// The form of the answer, which is decided before the first token.
struct ResponseShape {
  Endpoint endpoint = Endpoint::kCompletions;
  std::string id;  // "cmpl-…", "chatcmpl-…"
  std::string model;
  int64_t created_s = 0;
  int32_t n = 1;
  // Number of choices that are generated for each prompt. The best n of them are the answer.
  int32_t best_of = 1;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  int32_t stream_interval = 1;
  std::optional<int32_t> num_logprobs;  // alternatives; absent: no log-probabilities
  std::optional<int32_t> num_prompt_logprobs;
  bool tokens_as_ids = false;
  bool return_token_ids = false;
  bool return_prompt_text = false;
  bool echo = false;  // completions: the prompt is put before the text
  std::string role = "assistant";
  std::string chat_echo;  // text of the echo chunk; empty: none
  ReplyShape reply;       // chat
  bool prompt_tokens_details = false;
  bool has_prediction = false;  // the usage counts accepted and rejected prediction tokens
  bool draft_metrics = false;   // draft counts are added to the last usage
  bool timings = false;         // the last usage has the times of the tokens
  std::vector<PromptInfo> prompts;
  std::shared_ptr<const TextCodec> codec;
};

using Chunks = std::vector<boost::json::object>;

class ChunkBuilder {
 public:
  explicit ChunkBuilder(ResponseShape shape);

  // Appends the chunks that `delta` of prompt `prompt_index` completes. However deltas are cut, the
  // fold of all chunks is the same.
  void add(size_t prompt_index, OutputDelta delta, Chunks& out);
  // Appends the usage chunk, if one is wanted. It must be called after the last delta of the last
  // choice.
  void finish(Chunks& out);

  const ResponseShape& shape() const { return shape_; }
  // Returns about how much memory is taken by deltas that have not become chunks yet.
  uint64_t held_bytes() const;

 private:
  struct Choice {
    bool opened = false;  // role or echo has been sent
    OutputDelta pending;  // collected until it has stream_interval tokens
    bool has_pending = false;
    bool finished = false;
    int64_t num_tokens = 0;
    int64_t text_offset = 0;  // characters printed so far, for completions' logprobs
    std::unique_ptr<ReplyParser> parser;
    int32_t num_ended_calls = 0;
  };
  struct Prompt {
    std::optional<BestOf> best_of;
    std::vector<Choice> choices;
    std::vector<TokenLogprobs> prompt_logprobs;
    bool has_prompt_logprobs = false;
    int32_t num_cached_tokens = 0;
    std::vector<OutputDelta> held;  // deltas that came before the prompt's logprobs
  };

  void add_choice(size_t prompt_index, OutputDelta delta, Chunks& out);
  void release(size_t prompt_index, Choice& choice, Chunks& out);
  void add_ordered(size_t prompt_index, OutputDelta delta, Chunks& out);
  void open_chat(size_t prompt_index, Choice& choice, int32_t index, Chunks& out);
  boost::json::object envelope() const;
  boost::json::object completion_choice(size_t prompt_index, Choice& choice, OutputDelta& delta);
  // `earlier` gets deltas that come before the choice's own, in chunks of their own.
  boost::json::object chat_choice(Choice& choice, OutputDelta& delta, Chunks& earlier);
  boost::json::object reply_delta(Choice& choice, OutputDelta& delta, Chunks& earlier);
  std::vector<ReplyEvent> parse_reply(Choice& choice, const OutputDelta& delta);
  void add_call_event(Choice& choice, int32_t choice_index, const ReplyEvent& event,
                      boost::json::array& calls) const;
  boost::json::value completion_logprobs(size_t prompt_index, Choice& choice,
                                         const OutputDelta& delta, bool with_prompt);
  // Token counts of one choice, or of all of them.
  struct TokenCounts {
    int64_t prompt = 0;
    int64_t completion = 0;
    int64_t cached = 0;     // prompt tokens
    int64_t reasoning = 0;  // completion tokens
  };
  static int64_t num_reasoning_tokens(const Choice& choice);
  bool counts_reasoning() const;
  boost::json::object usage(const TokenCounts& counts) const;
  boost::json::object draft_metrics() const;
  void note_times(const ChoiceTimes& times);

  ResponseShape shape_;
  std::vector<Prompt> prompts_;
  std::optional<ChoiceTimes>
      times_;           // over all choices that have ended: the first start, the last end
  DraftCounts drafts_;  // of all choices that have ended
  std::shared_ptr<const KvHandover> handover_;  // of the next choice to end; null: none
};

}  // namespace quire::server
