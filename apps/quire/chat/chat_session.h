// ChatSession is a conversation in the terminal: it reads questions, prints their answers, and runs
// commands, which begin with a slash.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "facade/chat/chat_history.h"
#include "facade/engine_args.h"
#include "quire/engine_flags.h"
#include "quire/llm.h"

namespace quire::cli {

// Notes go to standard error, because standard output holds answers alone.
template <typename... Args>
void note(fmt::format_string<Args...> format, Args&&... args) {
  fmt::print(stderr, "[{}]\n", fmt::format(format, std::forward<Args>(args)...));
}

class ChatSession {
 public:
  // `args` load the model; /model loads another with the same flags.
  static Result<std::unique_ptr<ChatSession>> open(EngineArgs args, const SamplingFlags& sampling,
                                                   std::string system, bool is_interactive);
  ChatSession(EngineArgs args, const SamplingFlags& sampling, std::string system,
              bool is_interactive)
      : args_(std::move(args)),
        sampling_(sampling),
        history_(std::move(system)),
        is_interactive_(is_interactive) {}

  // Returns false when the conversation is over.
  bool handle(const std::string& message);
  // Returns the status of the first question that could not be answered.
  const Status& failure() const { return failure_; }
  const LLM& llm() const { return *llm_; }

  static const char* help();

 private:
  Status load();
  void handle_command(const std::string& command);
  void run_command(const std::string& name, const std::string& argument);
  Status answer(const std::string& question);
  Result<RequestOutput> stream(const std::vector<ChatMessage>& messages);
  void say_how_it_ended(const RequestOutput& output) const;
  void say_how_fast(const RequestOutput& output, const LLMStats& before, double seconds) const;
  void say_stats() const;
  Status save(const std::string& path) const;
  Status load_conversation(const std::string& path);
  Status attach_image(const std::string& path);
  Status change_model(const std::string& path);

  EngineArgs args_;
  const SamplingFlags& sampling_;
  std::unique_ptr<LLM> llm_;
  SamplingParams params_;
  ChatHistory history_;
  ContextRoom room_;
  bool is_interactive_;
  Status failure_;
  int64_t num_answers_ = 0;
  double answer_s_ = 0;  // of all answers
};

}  // namespace quire::cli
