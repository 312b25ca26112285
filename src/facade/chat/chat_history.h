// A ChatHistory is a conversation that never outgrows the context of its model.
//
//   QUIRE_ASSIGN_OR_RETURN(const ChatPrompt prompt, history.ask(question, room, count_tokens));
//   QUIRE_ASSIGN_OR_RETURN(const RequestOutput output, llm.chat(prompt.messages, params));
//   history.add(question, output.choices[0].text);
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "quire/llm.h"

namespace quire {

struct ContextRoom {
  int64_t max_model_len = 0;  // tokens of prompt and answer together
  int64_t answer_tokens = 1;  // kept free for the answer as long as there are turns to drop
};

struct ChatPrompt {
  std::vector<ChatMessage> messages;
  int64_t num_tokens = 0;
  int32_t num_dropped_turns = 0;  // by this question
};

// It holds the system message and the turns that were answered. One thread at a time uses it.
class ChatHistory {
 public:
  // Counts the tokens of the prompt that the messages make.
  using CountTokens = std::function<Result<int64_t>(const std::vector<ChatMessage>&)>;

  // An empty `system` is no system message.
  explicit ChatHistory(std::string system = {}) : system_(std::move(system)) {}

  // Returns the messages that ask `question`. It drops the oldest turns, each as a whole, until the
  // prompt leaves room for the answer; the system message stays. kTooLarge: the prompt fills the
  // context without any turn. Then, and when counting fails, the history stays as it was.
  Result<ChatPrompt> ask(const std::string& question, const ContextRoom& room,
                         const CountTokens& count_tokens);
  // The next question brings this image, and those that were attached before it.
  void attach_image(std::string bytes) { attached_.push_back(std::move(bytes)); }
  // A question is part of the history once it is answered, with its images.
  void add(std::string question, std::string answer);

  // What is attached is forgotten too.
  void forget_turns();
  // A new system message begins a new conversation.
  void set_system(std::string text);
  size_t num_turns() const { return turns_.size(); }

  // Returns all that was said, the system message first.
  std::vector<ChatMessage> messages() const;
  // In place of what was said: messages as parse_conversation() gives them.
  void restore(std::vector<ChatMessage> messages);

 private:
  struct Turn {
    std::string question;
    std::vector<std::string> images;
    std::string answer;
  };
  std::vector<ChatMessage> messages_from(size_t first_turn) const;

  std::string system_;
  std::deque<Turn> turns_;
  std::vector<std::string> attached_;
};

}  // namespace quire
