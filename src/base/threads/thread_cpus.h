// Chooses the CPUs on which a thread runs. Memory that it touches first is then on their node, as
// long as there is room.
#pragma once

#include <sched.h>

#include <vector>

namespace quire {

// Keeps the calling thread on some CPUs until the object is destroyed, on the same thread. Threads
// that are started meanwhile stay there too. With no CPUs it changes nothing. Allocates nothing. If
// the system refuses (a container's filter), that costs speed, not correctness.
class ThreadCpus {
 public:
  explicit ThreadCpus(const std::vector<int>& cpus);
  ~ThreadCpus();
  ThreadCpus(const ThreadCpus&) = delete;
  ThreadCpus& operator=(const ThreadCpus&) = delete;

 private:
  bool has_moved_ = false;
  cpu_set_t before_;
};

}  // namespace quire
