#include <fmt/format.h>
#include <unistd.h>

#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "quire/chat/chat_session.h"
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

std::optional<std::string> next_message(bool is_interactive) {
  if (is_interactive) return edit_message("> ");
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  return line;
}

Result<int> run_chat(ChatFlags& flags, const SamplingFlags& sampling) {
  flags.engine.on_progress = loading_bar();
  flags.engine.required_text = RequiredText::kChatTemplate;
  const bool is_interactive = isatty(STDIN_FILENO) != 0;
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<ChatSession> session,
                         ChatSession::open(flags.engine, sampling, flags.system, is_interactive));
  if (is_interactive) {
    catch_interrupts();
    const bool is_builtin = flags.engine.model.empty();
    note("{}{}", session->llm().info().name,
         is_builtin ? ": a demo of 3.5 million parameters; give a MODEL for useful answers" : "");
    fmt::print(stderr, "{}", ChatSession::help());
  }
  while (const auto message = next_message(is_interactive)) {
    if (!session->handle(*message)) break;
  }
  // A person has seen which question failed; a script only sees the exit code.
  return is_interactive || session->failure().ok() ? 0 : 1;
}

}  // namespace

void add_chat(CLI::App& app, int& exit_code) {
  CLI::App& verb = *app.add_subcommand("chat", "Talk to a model in the terminal");
  auto flags = std::make_shared<ChatFlags>();
  add_model_argument(verb, flags->engine);
  verb.add_option("--system", flags->system, "System message at the beginning of the conversation");
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
