// Runs every tests/traces/*.trace.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "sched/testing/trace_runner.h"
#include "tests/support/test_data.h"

namespace quire::test {
namespace {

std::vector<std::filesystem::path> trace_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& file : std::filesystem::directory_iterator(source_dir() / "tests/traces")) {
    if (file.path().extension() == ".trace") files.push_back(file.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST(SchedulerTrace, AllTracesHold) {
  const auto files = trace_files();
  EXPECT_GE(files.size(), 10u);
  for (const auto& file : files) {
    const Status status = TraceRunner::run(file);
    EXPECT_TRUE(status.ok()) << status.message();
  }
}

TEST(SchedulerTrace, ErrorsNameFileAndLine) {
  const auto message = [](std::string_view text) {
    return TraceRunner::run_text(text, "t.trace").message();
  };
  EXPECT_EQ(message("step -\n"), "t.trace:1: expected a model line first, got 'step'");
  EXPECT_EQ(message("model block_size=4 blocks=x\n"), "t.trace:1: expected a number, got 'x'");
  EXPECT_EQ(message("model block_size=4 blocks=8\n\n# comment\nadd 1 prompt=a4\nstep 1:0+3\n"),
            "t.trace:5: expected plan 1:0+3, got 1:0+4");
  EXPECT_EQ(message("model blocks=8\nadd 1 prompt=a4\nend\n"),
            "t.trace:3: expected the end, got plan 1:0+4");
  EXPECT_NE(message("model blocks=8\nhello 1\n").find("t.trace:2: expected model, config"),
            std::string::npos);
}

}  // namespace
}  // namespace quire::test
