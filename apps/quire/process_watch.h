// ProcessWatch ends a server that works for a single program when that program has ended.
#pragma once

#include <sys/types.h>

#include <memory>
#include <thread>

#include "base/result.h"

namespace quire::cli {

class ProcessWatch {
 public:
  // While the object lives, this process gets SIGTERM when process `pid` ends, however it ends.
  // kInvalidArgument: there is no such process.
  static Result<std::unique_ptr<ProcessWatch>> start(pid_t pid);
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

 private:
  explicit ProcessWatch(int pid_fd);

  const int pid_fd_;
  std::jthread thread_;
};

}  // namespace quire::cli
