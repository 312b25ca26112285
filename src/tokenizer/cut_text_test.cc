#include "tokenizer/cut_text.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

using Tokens = std::vector<TokenId>;

Tokens cut(Tokens whole, const Tokens& bare, int64_t most, CutSide side = CutSide::kRight) {
  const auto result = cut_text(std::move(whole), bare, most, side);
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? *result : Tokens{-1};
}

TEST(CutText, KeepsWhatIsAroundTheText) {
  EXPECT_EQ(cut({1, 7, 8, 9, 2}, {7, 8, 9}, 5), (Tokens{1, 7, 8, 9, 2}));
  EXPECT_EQ(cut({1, 7, 8, 9, 2}, {7, 8, 9}, 4), (Tokens{1, 7, 8, 2}));
  EXPECT_EQ(cut({1, 7, 8, 9, 2}, {7, 8, 9}, 1), (Tokens{1, 2}));
  EXPECT_EQ(cut({7, 8, 9}, {7, 8, 9}, 2), (Tokens{7, 8}));
  EXPECT_EQ(cut({1, 2}, {}, 1), (Tokens{1, 2}));
  EXPECT_EQ(cut({1, 7, 8, 9, 2}, {7, 8, 9}, 3, CutSide::kLeft), (Tokens{1, 9, 2}));
}

TEST(CutText, RefusesATextThatIsOtherwiseOnItsOwn) {
  EXPECT_EQ(cut({1, 7, 8, 9, 2}, {6, 8, 9}, 5), (Tokens{1, 7, 8, 9, 2}));  // fits anyway
  const auto result = cut_text({1, 7, 8, 9, 2}, Tokens{6, 8, 9}, 4, CutSide::kLeft);
  EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(result.status().message().find("expected at most 4 tokens, got 5"), std::string::npos);
}

}  // namespace
}  // namespace quire
