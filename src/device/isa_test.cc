#include "device/isa.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(Isa, ParsesEveryNameThisCpuHas) {
  EXPECT_EQ(parse_isa("auto").value(), best_isa());
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512}) {
    const auto parsed = parse_isa(to_string(isa));
    EXPECT_EQ(parsed.ok(), isa <= best_isa());
    if (parsed.ok()) {
      EXPECT_EQ(*parsed, isa);
    }
    if (!parsed.ok()) {
      EXPECT_NE(parsed.status().message().find(to_string(best_isa())), std::string::npos);
    }
  }
}

TEST(Isa, RefusesUnknownNames) {
  const auto parsed = parse_isa("sse9");
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.status().message(), "isa: expected auto, portable, avx2 or avx512, got 'sse9'");
}

TEST(Isa, Bf16RefinesAvx512Only) {
  if (has_avx512_bf16()) {
    EXPECT_EQ(best_isa(), Isa::kAvx512);
  }
}

}  // namespace
}  // namespace quire
