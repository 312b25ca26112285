// The terminal that a person talks to a model in.
#pragma once

#include <termios.h>

#include <optional>
#include <string>

namespace quire::cli {

// From now on Ctrl-C is noted and ends nothing.
void catch_interrupts();
bool interrupted();
// Whether Ctrl-C came since the last call.
bool take_interrupt();

// One message: arrows edit it, up and down bring back earlier ones, and a paste of many lines is
// one message. Empty when Ctrl-C gave it up; nullopt at the end of input (Ctrl-D). Standard input
// is a terminal. One thread.
std::optional<std::string> edit_message(const std::string& prompt);

// While it lives, what is typed is not shown amidst what the program writes; it waits, and is the
// beginning of the next message. Standard input is a terminal.
class QuietTerminal {
 public:
  QuietTerminal();
  ~QuietTerminal();
  QuietTerminal(const QuietTerminal&) = delete;
  QuietTerminal& operator=(const QuietTerminal&) = delete;

 private:
  termios before_{};
  bool changed_ = false;
};

}  // namespace quire::cli
