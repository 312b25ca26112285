#include "facade/chat/chat_history.h"

#include <utility>

namespace quire {

std::vector<ChatMessage> ChatHistory::messages_from(size_t first_turn) const {
  std::vector<ChatMessage> messages;
  if (!system_.empty()) messages.push_back({"system", system_});
  for (size_t i = first_turn; i < turns_.size(); ++i) {
    messages.push_back({"user", turns_[i].question, turns_[i].images});
    messages.push_back({"assistant", turns_[i].answer});
  }
  return messages;
}

std::vector<ChatMessage> ChatHistory::messages() const { return messages_from(0); }

void ChatHistory::restore(std::vector<ChatMessage> messages) {
  const size_t first = !messages.empty() && messages.front().role == "system" ? 1 : 0;
  set_system(first == 1 ? std::move(messages.front().content) : std::string());
  for (size_t i = first; i + 1 < messages.size(); i += 2) {
    attached_ = std::move(messages[i].images);
    add(std::move(messages[i].content), std::move(messages[i + 1].content));
  }
}

Result<ChatPrompt> ChatHistory::ask(const std::string& question, const ContextRoom& room,
                                    const CountTokens& count_tokens) {
  for (size_t dropped = 0;; ++dropped) {
    std::vector<ChatMessage> messages = messages_from(dropped);
    messages.push_back({"user", question, attached_});
    QUIRE_ASSIGN_OR_RETURN(const int64_t num_tokens, count_tokens(messages));
    const bool has_turns = dropped < turns_.size();
    if (num_tokens + (has_turns ? room.answer_tokens : 1) <= room.max_model_len) {
      turns_.erase(turns_.begin(), turns_.begin() + static_cast<std::ptrdiff_t>(dropped));
      return ChatPrompt{std::move(messages), num_tokens, static_cast<int32_t>(dropped)};
    }
    if (!has_turns) {
      return too_large(
          "the message takes {} tokens with what surrounds it; expected fewer than the {} of the "
          "context",
          num_tokens, room.max_model_len);
    }
  }
}

void ChatHistory::add(std::string question, std::string answer) {
  turns_.push_back({std::move(question), std::exchange(attached_, {}), std::move(answer)});
}

void ChatHistory::forget_turns() {
  turns_.clear();
  attached_.clear();
}

void ChatHistory::set_system(std::string text) {
  system_ = std::move(text);
  forget_turns();
}

}  // namespace quire
