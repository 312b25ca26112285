#include "core/hidden_rows.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace quire {
namespace {

constexpr RequestId kId{7};

std::vector<float> row_of(float value) { return {value, -value}; }

TEST(HiddenRows, ARowThatIsPutAgainEndsThoseBehindIt) {
  HiddenRows rows({});
  for (int32_t position = 3; position < 8; ++position)
    rows.put(kId, position, row_of(static_cast<float>(position)));
  rows.put(kId, 5, row_of(50));
  EXPECT_EQ(rows.range(kId).begin, 3);
  EXPECT_EQ(rows.range(kId).end, 6);
  EXPECT_EQ(rows.row(kId, 5)[0], 50.0f);
  EXPECT_EQ(rows.row(kId, 4)[1], -4.0f);
}

TEST(HiddenRows, RowsBeforeAGapGo) {
  HiddenRows rows({});
  rows.put(kId, 0, row_of(1));
  rows.put(kId, 2, row_of(2));
  EXPECT_EQ(rows.range(kId).begin, 2);
  EXPECT_EQ(rows.num_rows(), 1);
  rows.put(kId, 0, row_of(3));
  EXPECT_EQ(rows.range(kId).end, 1);
  rows.forget(kId);
  EXPECT_EQ(rows.range(kId).end, 0);
  EXPECT_EQ(rows.num_rows(), 0);
}

// Compares the results of random calls with a map.
TEST(HiddenRows, Model) {
  std::mt19937 random(1);
  HiddenRows rows({});
  std::map<int32_t, float> model;
  for (int i = 0; i < 20000; ++i) {
    const auto position = static_cast<int32_t>(random() % 24);
    switch (random() % 4) {
      case 0:
      case 1: {
        const auto value = static_cast<float>(i);
        const int32_t end = model.empty() ? -1 : model.rbegin()->first + 1;
        if (model.empty() || position < model.begin()->first || position > end) model.clear();
        model.erase(model.lower_bound(position), model.end());
        model[position] = value;
        rows.put(kId, position, row_of(value));
        break;
      }
      case 2:
        model.erase(model.begin(), model.lower_bound(position));
        rows.drop_before(kId, position);
        break;
      default:
        model.erase(model.lower_bound(position), model.end());
        rows.drop_from(kId, position);
    }
    const HiddenRows::Range range = rows.range(kId);
    ASSERT_EQ(range.end - range.begin, std::ssize(model));
    ASSERT_EQ(rows.num_rows(), std::ssize(model));
    for (const auto& [at, value] : model) {
      ASSERT_TRUE(range.contains(at));
      ASSERT_EQ(rows.row(kId, at)[0], value);
    }
  }
}

}  // namespace
}  // namespace quire
