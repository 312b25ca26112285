#include "quire/terminal.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>

namespace quire::cli {
namespace {

// A signal handler can only reach global variables.
std::atomic<bool> g_interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

// Makes the terminal mark where a paste begins and ends, so that a paste stays one message even
// when it comes while an answer is streamed.
void mark_pastes(bool on) {
  if (isatty(STDOUT_FILENO) == 0) return;
  std::fputs(on ? "\x1b[?2004h" : "\x1b[?2004l", stdout);
  std::fflush(stdout);
}

}  // namespace

void catch_interrupts() {
  std::signal(SIGINT, [](int) { g_interrupted = true; });
}

bool interrupted() { return g_interrupted; }

bool take_interrupt() { return g_interrupted.exchange(false); }

QuietTerminal::QuietTerminal() {
  if (tcgetattr(STDIN_FILENO, &before_) != 0) return;
  termios quiet = before_;
  // ISIG stays on, so that Ctrl-C stops the answer.
  quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON);
  changed_ = tcsetattr(STDIN_FILENO, TCSANOW, &quiet) == 0;
  mark_pastes(true);
}

QuietTerminal::~QuietTerminal() {
  mark_pastes(false);
  if (changed_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

}  // namespace quire::cli
