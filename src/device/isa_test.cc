#include "device/isa.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(Isa, ParsesEveryNameThisCpuHas) {
  EXPECT_EQ(parse_isa("auto").value(), best_isa());
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2Core, Isa::kAvx2, Isa::kAvx512Core,
                        Isa::kAvx512Vnni, Isa::kAvx512, Isa::kAmx, Isa::kAmxEmulated}) {
    const auto parsed = parse_isa(to_string(isa));
    EXPECT_EQ(parsed.ok(), has_isa(isa));
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
  EXPECT_EQ(
      parsed.status().message(),
      "--isa: expected auto, portable, avx2-core, avx2, avx512-core, avx512-vnni, avx512, amx or "
      "amx-emulated, got 'sse9'");
}

TEST(Isa, RefinementsAreOfAvx512AndAmxHasThemAll) {
  if (has_avx512_bf16() || has_avx512_vnni()) {
    EXPECT_TRUE(has_isa(Isa::kAvx512));
  }
  if (has_isa(Isa::kAmx)) {
    EXPECT_TRUE(has_avx512_bf16() && has_avx512_vnni());
  }
}

TEST(Isa, CoreUsesNoRefinement) {
  EXPECT_FALSE(uses_avx_vnni(Isa::kAvx2Core));
  EXPECT_EQ(uses_avx_vnni(Isa::kAvx2), has_avx_vnni());
  EXPECT_EQ(has_isa(Isa::kAvx2Core), has_isa(Isa::kAvx2));
  EXPECT_NE(best_isa(), Isa::kAvx2Core);
  EXPECT_FALSE(uses_avx512_bf16(Isa::kAvx512Core) || uses_avx512_vnni(Isa::kAvx512Core));
  EXPECT_EQ(uses_avx512_bf16(Isa::kAvx512), has_avx512_bf16());
  EXPECT_EQ(has_isa(Isa::kAvx512Core), has_isa(Isa::kAvx512));
  EXPECT_NE(best_isa(), Isa::kAvx512Core);
}

TEST(Isa, OneOfAvx512HasVnniAlone) {
  EXPECT_EQ(has_isa(Isa::kAvx512Vnni), has_avx512_vnni());
  EXPECT_EQ(uses_avx512_vnni(Isa::kAvx512Vnni), has_avx512_vnni());
  EXPECT_FALSE(uses_avx512_bf16(Isa::kAvx512Vnni));
  EXPECT_NE(best_isa(), Isa::kAvx512Vnni);
}

TEST(Isa, TheBestIsNeverTheEmulator) {
  EXPECT_NE(best_isa(), Isa::kAmxEmulated);
  EXPECT_TRUE(has_isa(Isa::kAmxEmulated));
}

}  // namespace
}  // namespace quire
