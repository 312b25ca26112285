#include "base/threads/thread_cpus.h"

namespace quire {

ThreadCpus::ThreadCpus(const std::vector<int>& cpus) {
  if (cpus.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) {
    if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_SET(cpu, &set);
  }
  has_moved_ = sched_getaffinity(0, sizeof before_, &before_) == 0 &&
               sched_setaffinity(0, sizeof set, &set) == 0;
}

ThreadCpus::~ThreadCpus() {
  if (has_moved_) (void)sched_setaffinity(0, sizeof before_, &before_);
}

}  // namespace quire
