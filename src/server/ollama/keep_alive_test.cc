#include "server/ollama/keep_alive.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

namespace quire::server {
namespace {

std::optional<int64_t> parsed(std::string_view json) {
  const auto value = parse_keep_alive_us(boost::json::parse(boost::json::string_view(json)));
  EXPECT_TRUE(value.ok()) << json;
  return value.ok() ? value.value() : std::optional<int64_t>(-7);
}

TEST(KeepAlive, NumbersAndDurations) {
  EXPECT_EQ(parsed("0"), 0);
  EXPECT_EQ(parsed("1.5"), 1'500'000);
  EXPECT_EQ(parsed("\"90\""), 90'000'000);
  EXPECT_EQ(parsed("\"5m\""), 300'000'000);
  EXPECT_EQ(parsed("\"1h30m2s5ms\""), 5'402'005'000);
  EXPECT_EQ(parsed("\"1.5h\""), 5'400'000'000);
  EXPECT_EQ(parsed("\"0\""), 0);
  for (const char* const good : {"-1", "\"-1\"", "\"-5m\"", "\"-0.0s\""}) {
    EXPECT_EQ(parsed(good), std::nullopt) << good;
  }
  EXPECT_GT(parsed("1e300"), 0);
}

TEST(KeepAlive, WhatIsWrittenOtherwiseIsRefused) {
  for (const char* const text : {"\"\"", "\"-\"", "\"5x\"", "\"m5\"", "\"5 m\"", "\"1h2\"",
                                 "\"..s\"", "true", "null", "[]", "\"5m5m5\""}) {
    const auto value = parse_keep_alive_us(boost::json::parse(text));
    ASSERT_FALSE(value.ok()) << text;
    EXPECT_EQ(value.error().param, "keep_alive");
  }
}

}  // namespace
}  // namespace quire::server
