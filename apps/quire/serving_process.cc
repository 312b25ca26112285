#include "quire/serving_process.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>

#include "base/log.h"

namespace quire::cli {

sigset_t block_stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return signals;
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) log_warn("cannot raise the limit of open files");
}

std::string url_of(const std::string& host, uint16_t port) {
  const bool bare_ipv6 = host.find(':') != host.npos && !host.starts_with('[');
  return bare_ipv6 ? fmt::format("http://[{}]:{}", host, port)
                   : fmt::format("http://{}:{}", host, port);
}

}  // namespace quire::cli
