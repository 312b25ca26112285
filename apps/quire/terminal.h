// These functions serve the terminal in which a person talks to a model.
#pragma once

#include <termios.h>

#include <optional>
#include <string>

namespace quire::cli {

// From this call on, Ctrl-C is recorded and no longer ends the program.
void catch_interrupts();
bool interrupted();
// Returns whether Ctrl-C came since the last call.
bool take_interrupt();

// Reads one message: arrows edit it, up and down show earlier ones, and a paste of many lines is
// one message. It returns an empty text when Ctrl-C cancelled the message, and nullopt at the end
// of input (Ctrl-D). Standard input must be a terminal. Only one thread may call it.
std::optional<std::string> edit_message(const std::string& prompt);

// While a QuietTerminal lives, typed keys are not shown among the text that the program writes.
// They are kept and begin the next message. Standard input must be a terminal.
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
