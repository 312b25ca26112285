#include "models/pooling_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_folder.h"

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

TEST(PoolingConfig, LogitScoresNameTheirTokens) {
  const SentenceModule module{.path = "1_LogitScore", .kind = "LogitScore"};
  const test::TempFolder folder;
  std::filesystem::create_directory(folder / module.path);
  std::ofstream(folder / "config.json") << "{}";
  const auto tokens = [&](std::string_view text) {
    std::ofstream(folder / module.path / "config.json") << text;
    return read_logit_tokens(*ModelFiles::open(folder.string()), module, 100);
  };
  const auto both = tokens(R"({"true_token_id":7,"false_token_id":9})");
  ASSERT_TRUE(both.ok()) << both.status().message();
  EXPECT_EQ(both->yes, 7);
  EXPECT_EQ(both->no, 9);
  EXPECT_EQ(tokens(R"({"true_token_id":7,"false_token_id":null})")->count(), 1);
  EXPECT_THAT(tokens(R"({"true_token_id":100})").status().message(), HasSubstr("true_token_id"));
  EXPECT_THAT(tokens("{}").status().message(), HasSubstr("true_token_id"));
}

}  // namespace
}  // namespace quire
