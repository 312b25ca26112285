// These functions serve the terminal in which a person talks to a model.
#pragma once

#include <termios.h>

#include <optional>
#include <string>

namespace quire::cli {

// Makes Ctrl-C be noted from then on, and end nothing.
void catch_interrupts();
bool interrupted();
// Returns whether Ctrl-C came after the last call.
bool take_interrupt();

// Reads one message: arrows edit it, up and down bring back earlier ones, and a paste of many lines
// is one message. It is empty when Ctrl-C gave it up, nullopt at the end of input (Ctrl-D).
// Standard input must be a terminal. One thread may call it.
std::optional<std::string> edit_message(const std::string& prompt);

// While a QuietTerminal lives, typed keys are not shown amidst what the program writes; they wait
// and begin the next message. Standard input must be a terminal.
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
