// Which CPUs a thread runs on. Memory that it is the first to touch then lies beside them, as long as
// there is room.
#pragma once

#include <sched.h>

#include <vector>

namespace quire {

// Keeps the thread that makes it on some CPUs until it is destroyed, on the same thread. Threads that are
// started meanwhile stay there. Empty: it changes nothing. It allocates nothing. A system that refuses (a
// container's filter) costs speed, not correctness.
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
