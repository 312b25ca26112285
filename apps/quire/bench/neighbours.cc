#include "quire/bench/neighbours.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace quire::bench {
namespace {

constexpr int64_t kBusyNs = 10'000'000;
constexpr timespec kPause{.tv_sec = 0, .tv_nsec = 10'000'000};

int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

// The child of a process with threads may only call functions that are safe in a signal handler.
[[noreturn]] void keep_core_busy(NeighbourKind kind) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  while (true) {
    const int64_t start_ns = now_ns();
    while (now_ns() - start_ns < kBusyNs) {
    }
    if (kind == NeighbourKind::kOnOff) nanosleep(&kPause, nullptr);
  }
}

}  // namespace

Result<Neighbours> Neighbours::start(NeighbourKind kind, int count) {
  Neighbours neighbours;
  for (int i = 0; kind != NeighbourKind::kNone && i < count; ++i) {
    const pid_t child = fork();
    if (child == 0) keep_core_busy(kind);
    if (child < 0) return resource_exhausted("neighbours: fork: {}", std::strerror(errno));
    neighbours.children_.push_back(child);
  }
  return neighbours;
}

Neighbours::~Neighbours() {
  for (const pid_t child : children_) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
}

}  // namespace quire::bench
