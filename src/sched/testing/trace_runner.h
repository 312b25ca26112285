// For tests: runs scheduler traces, which are texts that set up a cache and a scheduler, add and
// end requests, and say what each step's plan must be. Language: tests/traces/README.md.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "sched/scheduler.h"
#include "sched/testing/content_executor.h"

namespace quire::test {

class TraceRunner {
 public:
  // Runs a whole trace. Returns an error for the first line that is malformed or whose expectation
  // fails: "file:line: expected …".
  static Status run(const std::filesystem::path& file);
  static Status run_text(std::string_view text, std::string_view name);

 private:
  // A parsed line `verb word word key=value …`, with its parts in order.
  struct Line {
    std::string verb;
    std::vector<std::string> words;
    std::vector<std::pair<std::string, std::string>> options;
  };
  static Line parse(std::string_view text);

  Status execute(const Line& line);
  Status set_up(const Line& line);
  Status configure(const Line& line);
  Status add(const Line& line);
  Status step(const Line& line);
  Status expire(const Line& line);
  Status expect(const Line& line);
  Status end();
  void start();
  Result<int64_t> value_of(const std::string& name) const;

  KvSpec spec_;
  int32_t num_blocks_ = 0;  // without null blocks
  KvOptions kv_options_;
  SchedulerConfig config_;
  std::unique_ptr<KvManager> kv_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<ContentExecutor> executor_;
  int64_t now_us_ = 0;
  int64_t num_finished_ = 0;
};

}  // namespace quire::test
