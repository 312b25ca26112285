#include "server/openai/tool_call_id.h"

#include <gtest/gtest.h>

namespace quire::server {
namespace {

TEST(ToolCallId, HasTheFormOfTheDialect) {
  ToolCallId id{.request_id = "r", .choice_index = 1, .call_index = 2, .name = "f"};
  EXPECT_EQ(tool_call_id(id), "chatcmpl-tool-r-1-2");
  id.style = CallIds::kCallHex;
  const std::string hex = tool_call_id(id);
  EXPECT_TRUE(hex.starts_with("call_") && hex.size() == 29) << hex;
  EXPECT_EQ(hex.find_first_not_of("0123456789abcdef", 5), hex.npos);
  id.style = CallIds::kMistral;
  const std::string nine = tool_call_id(id);
  EXPECT_EQ(nine.size(), 9u);
  EXPECT_EQ(tool_call_id(id), nine);
  id.written = "a1B2c3D4e";
  EXPECT_EQ(tool_call_id(id), "a1B2c3D4e");
  id.written = "too long for it";
  EXPECT_EQ(tool_call_id(id), nine);
  id.style = CallIds::kKimi;
  id.num_earlier_calls = 3;
  EXPECT_EQ(tool_call_id(id), "functions.f:5");
  id.written = "functions.f:9";
  EXPECT_EQ(tool_call_id(id), "functions.f:9");
}

TEST(ToolCallId, IsAnotherForEachCall) {
  for (const CallIds style : {CallIds::kLong, CallIds::kCallHex, CallIds::kMistral}) {
    const ToolCallId first{.style = style, .request_id = "r"};
    ToolCallId other = first;
    other.call_index = 1;
    EXPECT_NE(tool_call_id(first), tool_call_id(other));
    other = first;
    other.choice_index = 1;
    EXPECT_NE(tool_call_id(first), tool_call_id(other));
    other = first;
    other.request_id = "s";
    EXPECT_NE(tool_call_id(first), tool_call_id(other));
  }
}

}  // namespace
}  // namespace quire::server
