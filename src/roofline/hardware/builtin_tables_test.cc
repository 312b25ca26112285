#include "roofline/hardware/builtin_tables.h"

#include <gtest/gtest.h>

#include <vector>

#include "roofline/model/operator_tables.h"

namespace quire {
namespace {

TEST(BuiltinTables, AreOfDevicesByTheirWholeName) {
  EXPECT_TRUE(has_builtin_tables("h100-sxm"));
  EXPECT_FALSE(has_builtin_tables("h100"));
  EXPECT_FALSE(has_builtin_tables("h200-sxm"));
  EXPECT_TRUE(builtin_tables("h200-sxm").value().empty());
  EXPECT_EQ(builtin_tables("h100-sxm").value().size(), 4u);
}

TEST(BuiltinTables, AreRead) {
  const std::vector<BuiltinTable> tables = builtin_tables("h100-sxm").value();
  for (const BuiltinTable& table : tables) {
    SCOPED_TRACE(table.name);
    if (table.name.find("gemm") != std::string::npos) {
      EXPECT_GT(read_gemm_csv(table.text, table.name).value().size(), 40'000u);
    } else if (table.name.find("attention") != std::string::npos) {
      EXPECT_GT(read_attention_csv(table.text, table.name).value().size(), 40'000u);
    } else {
      EXPECT_GT(read_experts_csv(table.text, table.name).value().size(), 30'000u);
    }
  }
}

}  // namespace
}  // namespace quire
