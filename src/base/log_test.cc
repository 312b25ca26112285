#include "base/log.h"

#include <gtest/gtest.h>

#include "base/log_format.h"

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

TEST(Log, JsonLinesHaveFields) {
  testing::internal::CaptureStderr();
  set_log_format(LogFormat::kJson);
  log_warn("a \"b\"\n{}", "\\c");
  const std::pair<std::string_view, std::string> fields[] = {{"request_id", "r-1"},
                                                             {"key", "\xff"}};
  log_fields(LogLevel::kWarn, "request", fields);
  set_log_format(LogFormat::kText);
  log_fields(LogLevel::kWarn, "request", fields);
  const std::string error = testing::internal::GetCapturedStderr();
  EXPECT_NE(error.find(R"(Z","level":"warning","message":"a \"b\"\u000a\\c"})"
                       "\n"),
            std::string::npos)
      << error;
  EXPECT_NE(error.find(R"("message":"request","request_id":"r-1","key":")"), std::string::npos)
      << error;
  EXPECT_NE(error.find("warning request request_id=r-1 key="), std::string::npos) << error;
}

}  // namespace
}  // namespace quire
