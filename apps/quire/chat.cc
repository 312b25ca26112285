#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "base/nearest_name.h"
#include "facade/chat/chat_history.h"
#include "facade/running_llm.h"
#include "quire/commands.h"
#include "quire/engine_flags.h"
#include "quire/lora_flags.h"
#include "quire/terminal.h"

namespace quire::cli {
namespace {

struct ChatFlags {
  EngineArgs engine;
  std::string system;
};

constexpr const char* kHelp =
    "/reset forgets the conversation, /system TEXT sets the system message, /exit leaves; Ctrl-C "
    "stops an answer, Ctrl-D leaves\n";

// Notes go to standard error, because standard output holds answers alone.
template <typename... Args>
void note(fmt::format_string<Args...> format, Args&&... args) {
  fmt::print(stderr, "[{}]\n", fmt::format(format, std::forward<Args>(args)...));
}

class ChatSession {
 public:
  ChatSession(LLM& llm, const SamplingParams& params, std::string system, bool is_interactive)
      : llm_(llm),
        params_(params),
        history_(std::move(system)),
        // A quarter of the context is left for the answer, so that a long conversation can still be
        // answered in full.
        room_{.max_model_len = llm.info().max_model_len,
              .answer_tokens =
                  std::max(1, std::min(params.max_tokens, llm.info().max_model_len / 4))},
        is_interactive_(is_interactive) {}

  // Returns false when the conversation is over.
  bool handle(const std::string& message);
  // Returns the status of the first question that could not be answered.
  const Status& failure() const { return failure_; }

 private:
  void handle_command(const std::string& command);
  Status answer(const std::string& question);
  Result<RequestOutput> stream(const std::vector<ChatMessage>& messages) const;
  void say_how_it_ended(const RequestOutput& output) const;

  LLM& llm_;
  SamplingParams params_;
  ChatHistory history_;
  ContextRoom room_;
  bool is_interactive_;
  Status failure_;
};

Result<RequestOutput> ChatSession::stream(const std::vector<ChatMessage>& messages) const {
  const auto quiet = is_interactive_ ? std::make_unique<QuietTerminal>() : nullptr;
  const auto print = [](std::string_view piece) {
    std::fwrite(piece.data(), 1, piece.size(), stdout);
    std::fflush(stdout);
    return !interrupted();
  };
  Result<RequestOutput> output =
      llm_.stream_chat(messages, params_, print, /*rule=*/{}, only_adapter(llm_));
  fmt::print("\n");
  std::fflush(stdout);
  take_interrupt();
  return output;
}

void ChatSession::say_how_it_ended(const RequestOutput& output) const {
  const ChoiceOutput& choice = output.choices[0];
  const auto answer_tokens = static_cast<int64_t>(choice.token_ids.size());
  const int64_t num_tokens = static_cast<int64_t>(output.prompt_token_ids.size()) + answer_tokens;
  if (choice.finish_reason == "abort") note("stopped");
  if (choice.finish_reason == "length" && num_tokens >= room_.max_model_len) {
    note("the answer was cut: the context of {} tokens (--max-model-len) is full",
         room_.max_model_len);
  } else if (choice.finish_reason == "length") {
    note("the answer was cut after {} tokens, the most of one answer (--max-tokens)",
         answer_tokens);
  }
  if (is_interactive_) {
    note("context: {} of {} tokens, {} %", num_tokens, room_.max_model_len,
         100 * num_tokens / room_.max_model_len);
  }
}

Status ChatSession::answer(const std::string& question) {
  const auto count_tokens = [this](const std::vector<ChatMessage>& messages) -> Result<int64_t> {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, llm_.encode_chat(messages));
    return static_cast<int64_t>(ids.size());
  };
  QUIRE_ASSIGN_OR_RETURN(const ChatPrompt prompt, history_.ask(question, room_, count_tokens));
  if (prompt.num_dropped_turns > 0) {
    note("the conversation outgrew the context of {} tokens: the oldest {} of its turns {} dropped",
         room_.max_model_len, prompt.num_dropped_turns,
         prompt.num_dropped_turns == 1 ? "was" : "were");
  }
  QUIRE_ASSIGN_OR_RETURN(const RequestOutput output, stream(prompt.messages));
  const std::string& text = output.choices[0].text;
  if (!text.empty()) history_.add(question, text);
  say_how_it_ended(output);
  return {};
}

void ChatSession::handle_command(const std::string& command) {
  const std::vector<std::string> commands{"/reset", "/system", "/exit", "/quit", "/help"};
  if (command == "/reset") {
    history_.forget_turns();
  } else if (command.starts_with("/system ")) {
    history_.set_system(command.substr(8));
  } else {
    const std::string name = command.substr(0, command.find(' '));
    const auto meant = nearest_name(name, commands);
    if (meant && *meant != name) note("{}: no such command; did you mean {}?", name, *meant);
    fmt::print(stderr, "{}", kHelp);
  }
}

bool ChatSession::handle(const std::string& message) {
  if (message == "/exit" || message == "/quit") return false;
  if (message.find_first_not_of(" \t\r\n") == message.npos) return true;
  if (message.starts_with("/") && message.find('\n') == message.npos) {
    handle_command(message);
    return true;
  }
  const Status status = answer(message);
  report(status);
  if (failure_.ok()) failure_ = status;
  return true;
}

std::optional<std::string> next_message(bool is_interactive) {
  if (is_interactive) return edit_message("> ");
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  return line;
}

Result<int> run_chat(ChatFlags& flags, const SamplingFlags& sampling) {
  flags.engine.on_progress = loading_bar();
  flags.engine.required_text = RequiredText::kChatTemplate;
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<LLM> llm, load_llm(flags.engine));
  const bool is_interactive = isatty(STDIN_FILENO) != 0;
  if (is_interactive) {
    catch_interrupts();
    const bool is_builtin = flags.engine.model.empty();
    note("{}{}", llm->info().name,
         is_builtin ? ": a demo of 3.5 million parameters; name a model for real answers" : "");
    fmt::print(stderr, "{}", kHelp);
  }
  ChatSession session(*llm, sampling.apply(llm->default_params()), flags.system, is_interactive);
  while (const auto message = next_message(is_interactive)) {
    if (!session.handle(*message)) break;
  }
  // A person has seen what failed; a script sees the exit code.
  return is_interactive || session.failure().ok() ? 0 : 1;
}

}  // namespace

void add_chat(CLI::App& app, int& exit_code) {
  CLI::App& verb = *app.add_subcommand("chat", "Talk to a model in the terminal");
  auto flags = std::make_shared<ChatFlags>();
  add_model_argument(verb, flags->engine);
  verb.add_option("--system", flags->system, "System message");
  add_chat_template_flag(verb, flags->engine);
  auto sampling = std::make_shared<SamplingFlags>(verb);
  add_engine_flags(verb, flags->engine);
  add_lora_path_flag(verb, flags->engine.lora);
  verb.callback([flags, sampling, &exit_code] {
    const Result<int> ended = run_chat(*flags, *sampling);
    exit_code = ended.ok() ? *ended : report(ended.status());
  });
}

}  // namespace quire::cli
