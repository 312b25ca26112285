#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <iostream>

#include "facade/running_llm.h"
#include "quire/commands.h"
#include "quire/engine_flags.h"

namespace quire::cli {
namespace {

struct ChatFlags {
  EngineArgs engine;
  std::string system;
};

// Set by Ctrl-C while an answer streams: stops the answer, not the program.
std::atomic<bool> g_interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

constexpr const char* kHelp =
    "/reset forgets the conversation, /system TEXT sets the system message, /exit leaves; Ctrl-C "
    "stops an answer\n";

class Conversation {
 public:
  explicit Conversation(std::string system) : system_(std::move(system)) { reset(); }

  void reset() {
    messages_.clear();
    if (!system_.empty()) messages_.push_back({"system", system_});
  }
  void set_system(std::string text) {
    system_ = std::move(text);
    reset();
  }
  // One turn; an answer that failed leaves the conversation as it was.
  Status turn(LLM& llm, const std::string& text, const SamplingParams& params) {
    messages_.push_back({"user", text});
    g_interrupted = false;
    auto output = llm.stream_chat(messages_, params, [](std::string_view piece) {
      std::fwrite(piece.data(), 1, piece.size(), stdout);
      std::fflush(stdout);
      return !g_interrupted.load();
    });
    fmt::print("\n");
    if (!output.ok()) {
      messages_.pop_back();
      return output.status();
    }
    messages_.push_back({"assistant", output->choices[0].text});
    return {};
  }

 private:
  std::string system_;
  std::vector<ChatMessage> messages_;
};

// False when the conversation is over.
bool handle_line(const std::string& line, LLM& llm, const SamplingParams& params,
                 Conversation& conversation) {
  if (line == "/exit" || line == "/quit") return false;
  if (line.empty()) return true;
  if (line == "/reset") {
    conversation.reset();
  } else if (line.starts_with("/system ")) {
    conversation.set_system(line.substr(8));
  } else if (line.starts_with("/")) {
    fmt::print("{}", kHelp);
  } else {
    report(conversation.turn(llm, line, params));
  }
  return true;
}

Status run_chat(ChatFlags& flags, const SamplingFlags& sampling) {
  flags.engine.on_progress = loading_bar();
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<LLM> llm, load_llm(flags.engine));
  const SamplingParams params = sampling.apply(llm->default_params());
  const bool interactive = isatty(STDIN_FILENO) != 0;
  if (interactive) fmt::print("{}", kHelp);
  std::signal(SIGINT, [](int) { g_interrupted = true; });

  Conversation conversation(flags.system);
  std::string line;
  while (true) {
    if (interactive) fmt::print("> ");
    std::fflush(stdout);
    if (!std::getline(std::cin, line)) break;
    if (!handle_line(line, *llm, params, conversation)) break;
  }
  return {};
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
  verb.callback([flags, sampling, &exit_code] { exit_code = report(run_chat(*flags, *sampling)); });
}

}  // namespace quire::cli
