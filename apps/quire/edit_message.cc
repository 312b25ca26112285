// Messages are edited with GNU readline.
#include <langinfo.h>
#include <unistd.h>

#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
// This header uses FILE and so comes after <cstdio>.
#include <readline/history.h>
#include <readline/readline.h>

#include "quire/terminal.h"

namespace quire::cli {
namespace {

// readline calls this ten times a second while it waits for a key.
int give_up_on_interrupt() {
  if (!interrupted()) return 0;
  rl_replace_line("", 0);
  rl_done = 1;
  return 0;
}

void prepare() {
  // This makes readline edit letters outside ASCII as letters. No other part of the locale is set,
  // so that numbers are read and written the same everywhere.
  std::setlocale(LC_CTYPE, "");
  if (std::strcmp(nl_langinfo(CODESET), "UTF-8") != 0) std::setlocale(LC_CTYPE, "C.UTF-8");
  rl_readline_name = "quire";
  rl_outstream = isatty(STDOUT_FILENO) != 0 ? stdout : stderr;
  rl_event_hook = give_up_on_interrupt;
  rl_variable_bind("enable-bracketed-paste", "on");
  // The tab key inserts a tab and does not complete file names.
  rl_bind_key('\t', rl_insert);
  using_history();
}

void remember(const char* line) {
  const HIST_ENTRY* const last = history_length > 0 ? history_get(history_length) : nullptr;
  if (*line != '\0' && (last == nullptr || std::strcmp(last->line, line) != 0)) add_history(line);
}

}  // namespace

std::optional<std::string> edit_message(const std::string& prompt) {
  static const bool prepared = (prepare(), true);
  (void)prepared;
  const std::unique_ptr<char, void (*)(void*)> line(readline(prompt.c_str()), std::free);
  if (take_interrupt()) {
    std::fputs("\n", rl_outstream);
    return std::string();
  }
  if (line == nullptr) return std::nullopt;
  remember(line.get());
  return std::string(line.get());
}

}  // namespace quire::cli
