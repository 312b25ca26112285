#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace quire {
namespace {

Result<int> half(int x) {
  if (x % 2 != 0) return invalid_argument("expected an even number, got {}", x);
  return x / 2;
}

Result<int> quarter(int x) {
  QUIRE_ASSIGN_OR_RETURN(const int h, half(x));
  return half(h);
}

TEST(Result, CarriesValueOrError) {
  EXPECT_EQ(*quarter(12), 3);
  const Result<int> failed = quarter(6);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(failed.status().message(), "expected an even number, got 3");
  EXPECT_EQ(failed.status().with_context("layer 2").message(),
            "layer 2: expected an even number, got 3");
}

TEST(Result, HoldsMoveOnlyValues) {
  Result<std::unique_ptr<int>> made = std::make_unique<int>(7);
  std::unique_ptr<int> taken = std::move(made).value();
  EXPECT_EQ(*taken, 7);
}

TEST(ResultDeathTest, ValueOfErrorIsABug) {
  EXPECT_DEATH((void)half(3).value(), "expected an even number");
}

}  // namespace
}  // namespace quire
