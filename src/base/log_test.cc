#include "base/log.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(Log, GoesToStandardErrorAndNeverToStandardOutput) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  log_warn("{} of {}", 1, 2);
  log_info("too low");
  set_log_level(LogLevel::kInfo);
  log_info("now {}", "said");
  set_log_level(LogLevel::kWarn);
  const std::string error = testing::internal::GetCapturedStderr();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_NE(error.find("warning 1 of 2\n"), std::string::npos) << error;
  EXPECT_NE(error.find("info now said\n"), std::string::npos) << error;
  EXPECT_EQ(error.find("too low"), std::string::npos) << error;
}

}  // namespace
}  // namespace quire
