// Golden parity of quantized checkpoints (tools/make_quant_goldens.py): formats x families against
// transformers with the dequantized weights in float32.
//
// With float32 products, logits agree to 1e-4 and 64 greedy tokens are equal, as for float weights:
// reading a format loses nothing. int8 activations are the exception: an input close to the middle
// between two steps of 1/127 is rounded the other way when its last bit differs, which moves a row
// by up to a few thousandths. With the default compute type, activations enter products in
// bfloat16, and the budget is that of bfloat16 weights, to which tiles round quantized weights.
// With `--dtype float16` activations stay float32, and only tables and KV cache are in float16.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "exec/testing/golden_support.h"
#include "tests/support/test_data.h"

namespace quire {
namespace {

using test::Golden;
using test::LogitsByPosition;

constexpr double kFloatBudget = 1e-4;
constexpr double kInt8Budget = 5e-3;
constexpr double kServedBudget = 6e-2;
constexpr double kFloat16Budget = 2e-2;

std::vector<std::string> quant_goldens() {
  std::vector<std::string> names;
  const auto dir = test::source_dir() / "tests" / "goldens" / "quant_models";
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool has_int8_activations(const ModelRunner& runner) {
  const auto& config = runner.plan().config.quantization;
  return config.description().find("dynamic activations") != std::string::npos &&
         config.description().find("int8") != std::string::npos;
}

class QuantGoldenFloat32 : public ::testing::TestWithParam<test::GoldenOnIsa> {};
class QuantGoldenFloat16 : public ::testing::TestWithParam<test::GoldenOnIsa> {};
class QuantGolden : public ::testing::TestWithParam<test::GoldenOnIsa> {};

TEST_P(QuantGoldenFloat32, Products) {
  const auto& [name, isa] = GetParam();
  const auto dir = test::golden_dir(name);
  const Golden golden = test::read_golden(dir);
  LogitsByPosition seen;
  const auto runner =
      test::load_golden(test::golden_model(dir), "float32", 0, seen, to_string(isa));
  test::PlanDriver driver(*runner, test::kGoldenBlocks);
  auto outputs =
      driver.run({test::greedy_request(golden.prompt, golden.tokens.size())}, {.chunk = 19});
  ASSERT_TRUE(outputs[1].status.ok()) << outputs[1].status.message();
  const double error = test::worst_error(golden, seen);
  EXPECT_LE(error, has_int8_activations(*runner) ? kInt8Budget : kFloatBudget);
  EXPECT_EQ(outputs[1].token_ids, golden.tokens) << "smallest gap on the way: " << golden.min_gap;
  fmt::print("{}: worst logit error {:.2e}, min gap {}\n", name, error, golden.min_gap);
}

TEST_P(QuantGoldenFloat16, KeepsActivationsAsFloats) {
  const auto& [name, isa] = GetParam();
  const auto dir = test::golden_dir(name);
  const Golden golden = test::read_golden(dir);
  LogitsByPosition seen;
  const auto runner =
      test::load_golden(test::golden_model(dir), "float16", 0, seen, to_string(isa));
  std::vector<TokenId> all = golden.prompt;
  all.insert(all.end(), golden.tokens.begin(), golden.tokens.end());
  test::PlanDriver driver(*runner, test::kGoldenBlocks);
  auto outputs = driver.run({test::greedy_request(all, 1)}, {});
  ASSERT_TRUE(outputs[1].status.ok()) << outputs[1].status.message();
  const double error = test::worst_error(golden, seen);
  EXPECT_LE(error, has_int8_activations(*runner) ? kServedBudget : kFloat16Budget);
  fmt::print("{}: float16, worst logit error {:.2e}\n", name, error);
}

TEST_P(QuantGolden, AsServed) {
  const auto& [name, isa] = GetParam();
  const auto dir = test::golden_dir(name);
  const Golden golden = test::read_golden(dir);
  LogitsByPosition seen;
  const auto runner = test::load_golden(test::golden_model(dir), "auto", 0, seen, to_string(isa));
  std::vector<TokenId> all = golden.prompt;
  all.insert(all.end(), golden.tokens.begin(), golden.tokens.end());
  test::PlanDriver driver(*runner, test::kGoldenBlocks);
  auto outputs = driver.run({test::greedy_request(all, 1)}, {});
  ASSERT_TRUE(outputs[1].status.ok()) << outputs[1].status.message();
  const double error = test::worst_error(golden, seen);
  EXPECT_LE(error, kServedBudget);
  for (size_t i = 0; i < golden.tokens.size(); ++i) {
    const std::vector<float>& row = seen[static_cast<int32_t>(golden.prompt.size() + i)];
    const float best = *std::max_element(row.begin(), row.end());
    double norm = 0.0;
    for (const float x : row) norm += double{x} * x;
    EXPECT_LE(best - row[static_cast<size_t>(golden.tokens[i])], kServedBudget * std::sqrt(norm))
        << "step " << i;
  }
  fmt::print("{}: as served, worst logit error {:.2e}\n", name, error);
}

INSTANTIATE_TEST_SUITE_P(All, QuantGoldenFloat32,
                         ::testing::Combine(::testing::ValuesIn(quant_goldens()),
                                            ::testing::ValuesIn(test::golden_vector_isas())),
                         test::golden_case);
INSTANTIATE_TEST_SUITE_P(All, QuantGoldenFloat16,
                         ::testing::Combine(::testing::ValuesIn(quant_goldens()),
                                            ::testing::ValuesIn(test::golden_vector_isas())),
                         test::golden_case);
INSTANTIATE_TEST_SUITE_P(All, QuantGolden,
                         ::testing::Combine(::testing::ValuesIn(quant_goldens()),
                                            ::testing::ValuesIn(test::golden_isas())),
                         test::golden_case);

}  // namespace
}  // namespace quire
