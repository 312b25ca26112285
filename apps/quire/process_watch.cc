#include "quire/process_watch.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

namespace quire::cli {

// The thread looks this often whether it shall end, so the destructor may wait this long for it.
constexpr int kPollMs = 200;

Result<std::unique_ptr<ProcessWatch>> ProcessWatch::start(pid_t pid) {
  const auto pid_fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (pid_fd < 0) {
    return invalid_argument("--exit-with-process: expected the id of a running process, got {}: {}",
                            pid, std::strerror(errno));
  }
  return std::unique_ptr<ProcessWatch>(new ProcessWatch(pid_fd));
}

ProcessWatch::ProcessWatch(int pid_fd)
    : pid_fd_(pid_fd), thread_([pid_fd](const std::stop_token& stopped) {
        while (!stopped.stop_requested()) {
          pollfd ended = {.fd = pid_fd, .events = POLLIN, .revents = 0};
          if (poll(&ended, 1, kPollMs) <= 0) continue;
          kill(getpid(), SIGTERM);
          return;
        }
      }) {}

ProcessWatch::~ProcessWatch() {
  thread_.request_stop();
  thread_.join();
  close(pid_fd_);
}

}  // namespace quire::cli
