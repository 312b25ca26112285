// ChatHistory: a conversation that never exceeds the context of its model.
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
  int32_t num_dropped_turns = 0;  // turns dropped for this question
};

// Holds the system message and the answered turns. Used by one thread at a time.
class ChatHistory {
 public:
  // Counts the tokens of the prompt that the messages make.
  using CountTokens = std::function<Result<int64_t>(const std::vector<ChatMessage>&)>;

  // An empty `system` means no system message.
  explicit ChatHistory(std::string system = {}) : system_(std::move(system)) {}

  // Returns the messages that ask `question`. It drops the oldest turns, each as a whole, until the
  // prompt leaves room for the answer; the system message stays. kTooLarge: the prompt does not fit
  // even without turns. After this or a counting error the history is unchanged.
  Result<ChatPrompt> ask(const std::string& question, const ContextRoom& room,
                         const CountTokens& count_tokens);
  // Attaches an image to the next question, after those attached before.
  void attach_image(std::string bytes) { attached_.push_back(std::move(bytes)); }
  // Adds an answered question with its images to the history.
  void add(std::string question, std::string answer);

  // Forgets all turns and attached images.
  void forget_turns();
  // Sets a new system message, which starts a new conversation.
  void set_system(std::string text);
  size_t num_turns() const { return turns_.size(); }

  // Returns all messages, the system message first.
  std::vector<ChatMessage> messages() const;
  // Replaces the conversation with messages that parse_conversation() has returned.
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
