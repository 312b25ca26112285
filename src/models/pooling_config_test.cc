#include "models/pooling_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using ::testing::HasSubstr;

TEST(PoolingConfig, ModulesAreReadByTheLastPartOfTheirType) {
  const auto modules = parse_sentence_modules(
      R"([{"path":"","type":"sentence_transformers.models.Transformer"},
          {"path":"1_Pooling","type":"sentence_transformers.models.Pooling"}])");
  ASSERT_TRUE(modules.ok()) << modules.status().message();
  EXPECT_EQ((*modules)[0].kind, "Transformer");
  EXPECT_EQ((*modules)[1].kind, "Pooling");
  EXPECT_EQ((*modules)[1].path, "1_Pooling");
  for (const char* bad : {"", "{", "{}", "[1]", R"([{"type":3}])"})
    EXPECT_FALSE(parse_sentence_modules(bad).ok()) << bad;
}

TEST(PoolingConfig, OneKindOfPoolingOfOldAndNewFiles) {
  const auto kind = [](const char* text) { return parse_pooling_kind(text, "1_Pooling"); };
  EXPECT_EQ(*kind(R"({"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":false})"),
            PoolingKind::kCls);
  EXPECT_EQ(*kind(R"({"pooling_mode_mean_tokens":true})"), PoolingKind::kMean);
  EXPECT_EQ(*kind(R"({"pooling_mode_max_tokens":true})"), PoolingKind::kMax);
  EXPECT_EQ(*kind(R"({"pooling_mode_lasttoken":true})"), PoolingKind::kLast);
  EXPECT_EQ(*kind(R"({"pooling_mode":"mean"})"), PoolingKind::kMean);
  EXPECT_THAT(kind("{}").status().message(), HasSubstr("got none"));
  EXPECT_THAT(
      kind(R"({"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":true})").status().message(),
      HasSubstr("got several"));
  EXPECT_THAT(kind(R"({"pooling_mode_weightedmean_tokens":true})").status().message(),
              HasSubstr("weightedmean"));
}

}  // namespace
}  // namespace quire
